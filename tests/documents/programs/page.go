// What a proxy answers in the server's place is no success; tests/documents/test_examples.py runs it.
package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

func main() {
	ctx, orders := context.Background(), Queue{URL: os.Getenv("MQ_URL") + "/orders"}
	_, err := orders.Publish(ctx, "text/plain", []byte("two coffees"))
	fmt.Println(err.(*Problem).Status)
	_, err = orders.Receive(ctx, 0, time.Second)
	fmt.Println(err.(*Problem).Status)
}
