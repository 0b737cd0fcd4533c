// Command overhttp asks a running scheduler the same question as the program beside it asks the library: which node groups take 40
// pods, and how many nodes of each group. The question comes on standard input; the cluster is the scheduler's own.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"

	"example.com/what-if/answer"
)

var (
	server    = flag.String("server", "", "`address` of the scheduler's HTTPS port, such as https://berth.kube-system.svc:10259")
	authority = flag.String("ca", "", "`file` with the authority of its certificate")
	tokenFile = flag.String("token-file", "", "`file` with the caller's token")
	socket    = flag.String("socket", "", "`path` of the admin socket, instead of a server")
)

func main() {
	flag.Parse()
	found, err := ask()
	if err != nil {
		fmt.Fprintln(os.Stderr, "overhttp:", err)
		os.Exit(1)
	}
	found.Print()
}

func ask() (found answer.Answer, err error) {
	transport, address, err := way()
	if err != nil {
		return found, err
	}
	request, err := http.NewRequest(http.MethodPost, address+"/what-if", os.Stdin)
	if err != nil {
		return found, err
	}
	if *tokenFile != "" {
		token, err := os.ReadFile(*tokenFile)
		if err != nil {
			return found, err
		}
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return found, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return found, err
	}
	if response.StatusCode != http.StatusOK {
		return found, fmt.Errorf("%s: %s", response.Status, body)
	}
	return found, json.Unmarshal(body, &found)
}

// way returns the transport to the scheduler, and the part of the URL before the path.
func way() (*http.Transport, string, error) {
	if *socket != "" {
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", *socket)
		}
		return &http.Transport{DialContext: dial}, "http://localhost", nil
	}
	if *server == "" {
		return nil, "", errors.New("-server or -socket is missing")
	}
	trusted := &tls.Config{}
	if *authority != "" {
		certificates, err := os.ReadFile(*authority)
		if err != nil {
			return nil, "", err
		}
		trusted.RootCAs = x509.NewCertPool()
		if !trusted.RootCAs.AppendCertsFromPEM(certificates) {
			return nil, "", fmt.Errorf("%s: no certificate", *authority)
		}
	}
	return &http.Transport{TLSClientConfig: trusted}, strings.TrimSuffix(*server, "/"), nil
}
