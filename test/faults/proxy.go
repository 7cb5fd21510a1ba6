// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Proxy is a wire before any program that can read a kubeconfig. It speaks plain HTTP on the loopback and adds the
// credentials itself.
type Proxy struct {
	// Address is its base URL, Kubeconfig the file that leads there.
	Address, Kubeconfig string
}

// StartProxy starts a proxy that acts with the rights of config, until the test ends.
func StartProxy(t testing.TB, wire *Wire, config *rest.Config) *Proxy {
	t.Helper()
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatalf("address of the API server: %v", err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatalf("credentials of the proxy: %v", err)
	}
	p := &Proxy{Address: "http://" + handOn(t, target, wire.Wrap(transport)), Kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	if err := clientcmd.WriteToFile(p.kubeconfig(), p.Kubeconfig); err != nil {
		t.Fatalf("write the kubeconfig of the proxy: %v", err)
	}
	return p
}

// handOn listens on the loopback, hands everything on to a target through a transport until the test ends, and returns its address.
func handOn(t testing.TB, target *url.URL, transport http.RoundTripper) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	server := &http.Server{ //nolint:gosec // for one program on the loopback, which may take its time
		Handler: &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(target)
				r.Out.Header.Del("Accept-Encoding") // the wire has to read what it holds; the transport asks for itself and unpacks
			},
			Transport:     transport,
			FlushInterval: -1, // news must not wait for more news
			// A fault on the wire must look like one, and not like a proxy that can tell what happened.
			ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		},
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-ended
	})
	return listener.Addr().String()
}

func (p *Proxy) kubeconfig() clientcmdapi.Config {
	const name = "faults"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: p.Address}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return *config
}

// String names the proxy.
func (p *Proxy) String() string { return fmt.Sprintf("proxy at %s", p.Address) }
