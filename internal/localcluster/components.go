// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const (
	// serviceRange is where Service addresses come from; nothing routes them.
	serviceRange        = "10.96.0.0/16"
	firstServiceAddress = "10.96.0.1"

	// Components that keep nothing get a short while to end, the API server and etcd a longer one to close their files.
	clientGrace = 5 * time.Second
	serverGrace = 10 * time.Second
)

// component is one process of the control plane and how to look after it.
type component struct {
	name    string
	path    string
	args    []string
	env     []string
	address string
	probe   Probe
	grace   time.Duration
	// prepare, if set, runs before every start of the component.
	prepare func(context.Context) error
}

// etcdComponent speaks TLS with an authority of its own, because whoever reaches etcd has every right in the cluster.
func (c *Cluster) etcdComponent() component {
	client := "https://" + loopback(c.record.Ports[portEtcdClient])
	peer := "https://" + loopback(c.record.Ports[portEtcdPeer])
	args := []string{
		"--name=default",
		"--data-dir=" + c.path("etcd"),
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=default=" + peer,
		"--cert-file=" + c.pki.certFile(etcdServerPair),
		"--key-file=" + c.pki.keyFile(etcdServerPair),
		"--trusted-ca-file=" + c.pki.certFile(etcdAuthority),
		"--client-cert-auth",
		"--peer-cert-file=" + c.pki.certFile(etcdServerPair),
		"--peer-key-file=" + c.pki.keyFile(etcdServerPair),
		"--peer-trusted-ca-file=" + c.pki.certFile(etcdAuthority),
		"--peer-client-cert-auth",
		// The HTTP gateway would dial back in with the server's certificate, and nobody here needs it.
		"--enable-grpc-gateway=false",
		"--quota-backend-bytes=8589934592",
		"--auto-compaction-mode=periodic",
		"--auto-compaction-retention=15m",
		"--log-level=warn",
	}
	if !c.opts.Fsync {
		args = append(args, "--unsafe-no-fsync")
	}
	return component{
		name: Etcd, path: c.binaries[Etcd], args: args, grace: serverGrace, address: client,
		probe: Probe{URL: client + "/health", Trust: trustEtcd},
	}
}

func (c *Cluster) apiServerComponent() component {
	args := []string{
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", c.record.Ports[portAPIServer]),
		"--etcd-servers=https://" + loopback(c.record.Ports[portEtcdClient]),
		"--etcd-cafile=" + c.pki.certFile(etcdAuthority),
		"--etcd-certfile=" + c.pki.certFile(etcdClientPair),
		"--etcd-keyfile=" + c.pki.keyFile(etcdClientPair),
		"--client-ca-file=" + c.pki.certFile(clusterAuthority),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + c.pki.certFile(serviceAccountPair),
		"--service-account-signing-key-file=" + c.pki.keyFile(serviceAccountPair),
		"--service-cluster-ip-range=" + serviceRange,
		"--requestheader-client-ca-file=" + c.pki.certFile(frontProxyAuthority),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + c.pki.certFile(frontProxyPair),
		"--proxy-client-key-file=" + c.pki.keyFile(frontProxyPair),
		"--authorization-mode=Node,RBAC",
		"--allow-privileged=true",
		// EndpointSlices refuse loopback addresses, so the Service "kubernetes" stays without endpoints.
		"--endpoint-reconciler-type=none",
	}
	args = append(args, c.servingArgs()...)
	if !c.opts.ControllerManager {
		// Nobody makes default service accounts, and pods would be refused for the lack of one.
		args = append(args, "--disable-admission-plugins=ServiceAccount")
	}
	if c.opts.Audit {
		args = append(args, c.auditArgs()...)
	}
	return component{
		name: APIServer, path: c.binaries[c.opts.apiServer()], args: append(args, c.opts.APIServerArgs...),
		grace: serverGrace, address: c.record.Server, probe: Probe{URL: c.record.Server + "/readyz", Trust: trustCluster},
	}
}

// servingArgs keep components from making certificates of their own under /var/run.
func (c *Cluster) servingArgs() []string {
	return []string{
		"--tls-cert-file=" + c.pki.certFile(servingPair),
		"--tls-private-key-file=" + c.pki.keyFile(servingPair),
	}
}

func (c *Cluster) controllerManagerComponent() component {
	port := c.record.Ports[portControllerManager]
	args := append(c.clientArgs(userControllerManager, port),
		"--use-service-account-credentials=true",
		"--service-account-private-key-file="+c.pki.keyFile(serviceAccountPair),
		"--root-ca-file="+c.pki.certFile(clusterAuthority),
		"--cluster-signing-cert-file="+c.pki.certFile(clusterAuthority),
		"--cluster-signing-key-file="+c.pki.keyFile(clusterAuthority),
		"--service-cluster-ip-range="+serviceRange,
		"--allocate-node-cidrs=false",
		// The defaults suit a fleet; here a rollout should take as long as it has to and no longer.
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
		"--concurrent-gc-syncs=10",
	)
	return component{
		name: ControllerManager, path: c.binaries[ControllerManager],
		args: append(args, c.opts.ControllerManagerArgs...), grace: clientGrace,
		address: "https://" + loopback(port), probe: Probe{URL: "https://" + loopback(port) + "/healthz", Trust: trustCluster},
	}
}

func (c *Cluster) schedulerComponent() component {
	port := c.record.Ports[portScheduler]
	args := append(c.clientArgs(userScheduler, port), "--kube-api-qps=500", "--kube-api-burst=1000")
	return component{
		name: Scheduler, path: c.binaries[Scheduler],
		args: append(args, c.opts.SchedulerArgs...), grace: clientGrace,
		address: "https://" + loopback(port), probe: Probe{URL: "https://" + loopback(port) + "/readyz", Trust: trustCluster},
	}
}

// clientArgs are common to the controller manager and the scheduler. There is one of each, so nobody is elected.
func (c *Cluster) clientArgs(user string, port int) []string {
	kubeconfig := kubeconfigPath(c.opts.StateDir, user)
	return append([]string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		"--leader-elect=false",
	}, c.servingArgs()...)
}

// environment is what a component sees of the machine. Proxies and kubeconfigs of the person who runs it must not
// reach it, and a home directory of its own keeps it from writing elsewhere.
func (c *Cluster) environment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.path("home"), "TMPDIR=" + os.TempDir()}
}

// path returns a path below the state directory.
func (c *Cluster) path(elements ...string) string {
	return filepath.Join(append([]string{c.opts.StateDir}, elements...)...)
}
