// A renewal that is never answered, and a publish that is refused as its context ends;
// tests/documents/test_examples.py runs it.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

type hanging struct{ way http.RoundTripper }

func (h hanging) RoundTrip(request *http.Request) (*http.Response, error) {
	if asked := request.URL.Query(); asked.Has("id") && asked.Get("visibility") != "1.000000" {
		<-request.Context().Done()
		return nil, request.Context().Err()
	}
	return h.way.RoundTrip(request)
}

type refusing struct{ end func() }

func (r refusing) RoundTrip(*http.Request) (*http.Response, error) {
	r.end()
	body := `{"type": "urn:mq:problem:queue-not-found", "status": 404, "detail": "there is no queue"}`
	return &http.Response{StatusCode: 404, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader([]byte(body)))}, nil
}

func main() {
	way := client.Transport
	ctx, stop := context.WithCancel(context.Background())
	orders := Queue{URL: os.Getenv("MQ_URL") + "/orders"}
	orders.Publish(ctx, "text/plain", []byte("two coffees"))
	client.Transport = hanging{way}
	orders.Work(ctx, 3*time.Second, func(held context.Context, _ *Message) error {
		stop()
		select {
		case <-held.Done():
			fmt.Println("the lease is over")
			return errors.New("not now")
		case <-time.After(30 * time.Second):
			fmt.Println("the renewal hangs")
			os.Exit(1)
		}
		return nil
	})
	ctx, end := context.WithCancel(context.Background())
	client.Transport = refusing{end}
	_, err := orders.Publish(ctx, "text/plain", []byte("tea"))
	fmt.Println(err)
}
