// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package localcluster builds and runs a real Kubernetes control plane on one Linux machine.
//
// etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl, kwok and the LeaderWorkerSet controller are
// compiled once per version from pinned Go modules into a cache outside the checkout. They run as plain child processes
// that listen on 127.0.0.1 only, with TLS and one client certificate per actor, and keep everything they write in one
// state directory.
//
// Two parents are possible. Tests call [Start] and are the parent themselves. The dynamo-local command calls [Up], which
// starts a supervisor process that outlives the command. In both cases the kernel kills the children when the parent
// dies, however it dies, so no run leaves a process behind.
package localcluster
