package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Queue is one queue of a server of MQ. Copy this file; it needs nothing but Go.
type Queue struct {
	URL   string // of the queue, as http://127.0.0.1:8080/orders
	Token string // if the server wants one
}

// Message is a message under a lease.
type Message struct {
	ID, Lease, ContentType string
	ReceiveCount           int
	Body                   []byte
}

// Problem is why the server refused. Type is one of those in docs/protocol.md.
type Problem struct {
	Type, Detail string
	Status       int
}

func (p *Problem) Error() string { return fmt.Sprintf("%d %s (%s)", p.Status, p.Detail, p.Type) }

var client = &http.Client{Timeout: 90 * time.Second, Transport: &http.Transport{DisableCompression: true}} // bodies come as they are

// Create makes the queue, or leaves it as it is.
func (q Queue) Create(ctx context.Context) error {
	_, _, err := q.ask(ctx, "PUT", "", http.Header{}, nil)
	return err
}

// Publish returns the id once the message is on stable media. Trying again makes no second message.
func (q Queue) Publish(ctx context.Context, contentType string, body []byte) (string, error) {
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		return "", err
	}
	headers := http.Header{"X-Message-Id": {fmt.Sprintf("%x", random)}, "Content-Type": {contentType}}
	_, _, err := q.ask(ctx, "POST", "/messages", headers, body)
	return headers.Get("X-Message-Id"), err
}

// Receive waits up to 60 seconds for a message; nil if none came.
func (q Queue) Receive(ctx context.Context, wait, visibility time.Duration) (*Message, error) {
	head, body, err := q.ask(ctx, "GET", fmt.Sprintf("/messages?wait=%f&visibility=%f", wait.Seconds(), visibility.Seconds()), http.Header{}, nil)
	if err != nil || head.Get("X-Message-Id") == "" {
		return nil, err
	}
	count, _ := strconv.Atoi(head.Get("X-Receive-Count"))
	return &Message{head.Get("X-Message-Id"), head.Get("ETag"), head.Get("Content-Type"), count, body}, nil
}

// Remove acknowledges a message. A Problem with status 412 says that another receiver has it.
func (q Queue) Remove(ctx context.Context, m *Message) error {
	_, _, err := q.ask(ctx, "DELETE", "/messages/"+m.ID, http.Header{"If-Match": {m.Lease}}, nil)
	return err
}

// Extend lets the lease end in this time from now; 0 gives the message back at once.
func (q Queue) Extend(ctx context.Context, m *Message, visibility time.Duration) error {
	_, _, err := q.ask(ctx, "GET", fmt.Sprintf("/messages?id=%s&visibility=%f", m.ID, visibility.Seconds()), http.Header{"If-Match": {m.Lease}}, nil)
	return err
}

// Work removes a message if handle returns nil, else gives it back. Handle's ctx ends when no renewal succeeds.
func (q Queue) Work(ctx context.Context, visibility time.Duration, handle func(context.Context, *Message) error) error {
	for ctx.Err() == nil {
		message, err := q.Receive(ctx, 20*time.Second, visibility)
		if err != nil && ctx.Err() == nil {
			return err
		} else if message == nil {
			continue
		}
		held, end := context.WithCancel(context.Background())
		renewed := make(chan bool)
		go func() { q.renew(held, message, visibility); end(); close(renewed) }()
		failed := handle(held, message)
		end()
		<-renewed // a renewal that arrived later would undo the second
		if failed == nil {
			err = q.Remove(context.Background(), message)
		} else {
			err = q.Extend(context.Background(), message, time.Second)
		}
		if problem, ok := err.(*Problem); err != nil && !(ok && (problem.Status == 404 || problem.Status == 412)) {
			return err // a lease that was lost is no error: the message is somewhere else
		}
	}
	return nil
}

func (q Queue) renew(held context.Context, m *Message, visibility time.Duration) {
	for err := error(nil); err == nil && held.Err() == nil; {
		select {
		case <-held.Done():
		case <-time.After(visibility / 3):
			lease, over := context.WithTimeout(context.Background(), visibility*2/3) // what is left of it
			err = q.Extend(lease, m, visibility)
			over()
		}
	}
}

// ask tries again for some seconds when no answer comes, the server answers 503, or a proxy 502 or 504. What answers 200 and is not MQ is an error.
func (q Queue) ask(ctx context.Context, method, path string, headers http.Header, body []byte) (head http.Header, read []byte, err error) {
	for pause, after := 100*time.Millisecond, 0; pause < 5*time.Second; pause, after = pause*2, 0 {
		request, wrong := http.NewRequestWithContext(ctx, method, q.URL+path, bytes.NewReader(body))
		if wrong != nil {
			return nil, nil, wrong
		}
		request.Header = headers
		if q.Token != "" {
			request.Header.Set("Authorization", "Bearer "+q.Token)
		}
		answer, failed := client.Do(request)
		if err = failed; err == nil {
			head = answer.Header
			read, err = io.ReadAll(answer.Body)
			answer.Body.Close()
		}
		isWhole := err == nil && (answer.ContentLength >= 0 || answer.TransferEncoding != nil) // without a length it may have broken off
		isOurs := isWhole && (answer.StatusCode != 200 || method == "PUT" || head.Get("X-Message-Id") != "")
		if (isOurs && answer.StatusCode < 400) || (err != nil && ctx.Err() != nil) {
			return
		} else if err == nil {
			problem := &Problem{Status: answer.StatusCode, Detail: "what answered is not MQ"}
			_ = json.Unmarshal(read, problem)
			after, _ = strconv.Atoi(head.Get("Retry-After"))
			if err = problem; problem.Status < 502 || problem.Status > 504 || after > 60 || ctx.Err() != nil {
				return
			}
		}
		wait, over := context.WithTimeout(ctx, pause+time.Duration(after)*time.Second)
		<-wait.Done()
		over()
	}
	return
}
