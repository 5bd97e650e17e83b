// A worker in Go, with the client in mq.go.
//
//	go run .
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	server := os.Getenv("MQ_URL")
	if server == "" {
		server = "http://127.0.0.1:8080"
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	orders := Queue{URL: server + "/orders", Token: os.Getenv("MQ_TOKEN")}
	if err := orders.Create(ctx); err != nil {
		log.Fatal(err)
	}
	err := orders.Work(ctx, 30*time.Second, func(_ context.Context, message *Message) error {
		fmt.Printf("brewing %s\n", message.Body)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}
