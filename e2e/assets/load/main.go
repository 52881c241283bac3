// Command load creates ConfigMaps with client-go, over HTTP/2 and HTTP/1.1, at a rate until its standard input ends, and prints what came
// of them as JSON. It connects to one of the ready endpoints of a file, in turn, as a Service does.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// clients have a connection each, or with HTTP/1.1 up to eight.
	clients      = 8
	http1Clients = 2
	// patience bounds one write with its repetitions.
	patience = 30 * time.Second
)

type summary struct {
	sync.Mutex
	// Written has the names of the acknowledged ConfigMaps.
	Written []string `json:"written"`
	// Errors has the errors that client-go returned.
	Errors []string `json:"errors"`
	// Behind counts the writes that waited for a free place: the rate was not kept.
	Behind int `json:"behind"`
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig")
	endpoints := flag.String("endpoints", "", "file with a ready endpoint, HOST:PORT, in each line")
	namespace := flag.String("namespace", "", "namespace of the ConfigMaps")
	prefix := flag.String("prefix", "", "prefix of the names")
	rate := flag.Int("rate", 200, "writes per second")
	repeats := flag.Bool("repeats", false, "repeat a failed write")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	found := load(config, *endpoints, *namespace, *prefix, *rate, *repeats)
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func load(config *rest.Config, endpoints, namespace, prefix string, rate int, repeats bool) *summary {
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(done)
	}()
	found := &summary{Written: []string{}, Errors: []string{}}
	names := make(chan string, rate)
	var writers sync.WaitGroup
	for number := range clients {
		own := balanced(config, endpoints)
		if number < http1Clients {
			own.NextProtos = []string{"http/1.1"}
		}
		client := kubernetes.NewForConfigOrDie(own)
		for range 8 {
			writers.Go(func() {
				for name := range names {
					write(client, namespace, name, repeats, found)
				}
			})
		}
	}
	ticks := time.NewTicker(time.Second / time.Duration(rate))
	defer ticks.Stop()
	for number := 0; ; number++ {
		select {
		case <-done:
			close(names)
			writers.Wait()
			return found
		case <-ticks.C:
		}
		select {
		case names <- fmt.Sprintf("%s-%06d", prefix, number):
		default:
			found.Behind++
		}
	}
}

var turn atomic.Uint64

// balanced returns the configuration of a client with connections of its own, each to the next ready endpoint.
func balanced(config *rest.Config, endpoints string) *rest.Config {
	own := rest.CopyConfig(config)
	own.QPS = -1
	dialer := net.Dialer{Timeout: 5 * time.Second}
	own.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		text, err := os.ReadFile(endpoints)
		if err != nil {
			return nil, err
		}
		ready := strings.Fields(string(text))
		if len(ready) == 0 {
			return nil, errors.New("no ready endpoint")
		}
		return dialer.DialContext(ctx, network, ready[turn.Add(1)%uint64(len(ready))])
	}
	return own
}

func write(client kubernetes.Interface, namespace, name string, repeats bool, found *summary) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for attempt := 0; ; attempt++ {
		_, err := client.CoreV1().ConfigMaps(namespace).Create(ctx, object, metav1.CreateOptions{})
		// The answer to an earlier attempt was lost.
		isThere := attempt > 0 && apierrors.IsAlreadyExists(err)
		found.Lock()
		if err == nil || isThere {
			found.Written = append(found.Written, name)
		} else {
			found.Errors = append(found.Errors, fmt.Sprintf("%s %s: %v", time.Now().Format("15:04:05.000"), name, err))
		}
		found.Unlock()
		if err == nil || isThere || !repeats || ctx.Err() != nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}
