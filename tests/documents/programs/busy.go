// A proxy that asks to come again later, and a worker that is to end; tests/documents/test_examples.py
// runs it.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"
)

type ending struct {
	way http.RoundTripper
	end func()
}

func (e ending) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := e.way.RoundTrip(request)
	time.AfterFunc(100*time.Millisecond, e.end)
	return answer, err
}

func main() {
	orders := Queue{URL: os.Getenv("MQ_URL") + "/orders"}
	_, err := orders.Publish(context.Background(), "text/plain", []byte("two coffees"))
	fmt.Println(err.(*Problem).Status)
	ctx, stop := context.WithCancel(context.Background())
	client.Transport = ending{client.Transport, stop}
	orders.Work(ctx, time.Minute, nil)
	fmt.Println("ended")
}
