// A renewal that is slow on its way when the work fails; tests/documents/test_examples.py runs it.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"
)

var begun, failed = make(chan bool, 9), make(chan bool)

type slow struct{ way http.RoundTripper }

func (s slow) RoundTrip(request *http.Request) (*http.Response, error) {
	asked := request.URL.Query()
	if asked.Get("visibility") == "1.000000" {
		fmt.Println("back in a second")
	} else if asked.Has("id") {
		begun <- true
		arrived := make(chan bool)
		var answer *http.Response
		var err error
		go func() {
			<-failed
			time.Sleep(300 * time.Millisecond)
			answer, err = s.way.RoundTrip(request.Clone(context.Background()))
			fmt.Println("renewed")
			close(arrived)
		}()
		select {
		case <-arrived:
			return answer, err
		case <-request.Context().Done():
			return nil, request.Context().Err()
		}
	}
	return s.way.RoundTrip(request)
}

func main() {
	ctx, stop := context.WithCancel(context.Background())
	orders := Queue{URL: os.Getenv("MQ_URL") + "/orders"}
	orders.Publish(ctx, "text/plain", []byte("two coffees"))
	client.Transport = slow{client.Transport}
	orders.Work(ctx, 3*time.Second, func(context.Context, *Message) error {
		<-begun
		stop()
		close(failed)
		return errors.New("not now")
	})
	time.Sleep(time.Second)
}
