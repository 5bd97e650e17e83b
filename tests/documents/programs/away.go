// A request to a proxy whose server is away for a moment; tests/documents/test_examples.py runs it.
package main

import (
	"context"
	"fmt"
	"os"
)

func main() {
	if err := (Queue{URL: os.Getenv("MQ_URL") + "/orders"}).Create(context.Background()); err != nil {
		panic(err)
	}
	fmt.Println("made")
}
