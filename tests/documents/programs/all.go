// What the client of examples/go does; tests/documents/test_examples.py builds it with that.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

func refused(err error) { fmt.Println(err.(*Problem).Status, err.(*Problem).Type) }

func main() {
	ctx, stop := context.WithCancel(context.Background())
	orders := Queue{URL: os.Getenv("MQ_URL") + "/orders"}
	orders.Publish(ctx, "text/plain", []byte("two coffees"))
	orders.Work(ctx, 30*time.Second, func(_ context.Context, m *Message) error {
		if m.ReceiveCount == 1 {
			fmt.Println("received", string(m.Body), m.ReceiveCount)
			return errors.New("not now")
		}
		fmt.Println("again", string(m.Body), m.ReceiveCount)
		stop()
		return nil
	})
	ctx = context.Background()
	if none, err := orders.Receive(ctx, 0, time.Second); none == nil && err == nil {
		fmt.Println("empty")
	}
	_, err := Queue{URL: os.Getenv("MQ_URL") + "/nowhere"}.Receive(ctx, 0, time.Second)
	refused(err)
	orders.Publish(ctx, "text/plain", []byte("tea"))
	tea, _ := orders.Receive(ctx, 0, time.Minute)
	orders.Extend(ctx, tea, 0)
	again, _ := orders.Receive(ctx, 0, 30*24*time.Hour)
	refused(orders.Remove(ctx, tea))
	orders.Remove(ctx, again)
}
