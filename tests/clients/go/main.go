// Fetches pages as Go programs do: `clients PROTOCOL AUTHORITY URL...`. PROTOCOL is 1, 2 (net/http) or
// 3 (quic-go). One client fetches all pages at the same time, twice. For each answer there is a line:
// the protocol, the status, the length and the CRC-32 of the body, `hit` or `miss`.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/quic-go/quic-go/http3"
)

func main() {
	protocol, authority, urls := os.Args[1], os.Args[2], os.Args[3:]
	pem, err := os.ReadFile(authority)
	check(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	trust := &tls.Config{RootCAs: roots}
	client := &http.Client{}
	switch protocol {
	case "1":
		client.Transport = &http.Transport{TLSClientConfig: trust}
	case "2":
		client.Transport = &http.Transport{TLSClientConfig: trust, ForceAttemptHTTP2: true}
	case "3":
		client.Transport = &http3.Transport{TLSClientConfig: trust}
	}
	for range 2 {
		var all sync.WaitGroup
		lines := make([]string, len(urls))
		for at, url := range urls {
			all.Add(1)
			go func() {
				defer all.Done()
				lines[at] = fetch(client, url)
			}()
		}
		all.Wait()
		for _, line := range lines {
			fmt.Println(line)
		}
	}
}

func fetch(client *http.Client, url string) string {
	answer, err := client.Get(url)
	check(err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	check(err)
	found := "miss"
	if strings.Contains(answer.Header.Get("Cache-Status"), "hit") {
		found = "hit"
	}
	return fmt.Sprintf("%s %d %d %08x %s", answer.Proto, answer.StatusCode, len(body), crc32.ChecksumIEEE(body), found)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
