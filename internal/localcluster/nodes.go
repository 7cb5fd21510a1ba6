// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

const (
	// simulatedLabel marks nodes this package made, so that it removes no others.
	simulatedLabel = "dynamo-local/simulated"
	// kwokAnnotation is how kwok recognises the nodes it is to play.
	kwokAnnotation = "kwok.x-k8s.io/node"
	// gpuResource is the resource the device plugin of a real node would offer.
	gpuResource = "nvidia.com/gpu"
)

//go:embed manifests/stages.yaml
var stageManifest []byte

// startNodes runs kwok and creates the simulated nodes.
func (c *Cluster) startNodes(ctx context.Context) error {
	if c.opts.Nodes == 0 {
		return nil
	}
	c.say(fmt.Sprintf("simulating %d nodes with %d GPUs each", c.opts.Nodes, c.opts.GPUs))
	if err := writeFileAtomically(c.path("kwok-stages.yaml"), stageManifest, 0o644); err != nil {
		return err
	}
	if err := c.run(ctx, c.kwokComponent()); err != nil {
		return err
	}
	api, err := c.clientset()
	if err != nil {
		return err
	}
	if err := c.reconcileNodes(ctx, api); err != nil {
		return err
	}
	return poll(ctx, readyTimeout, "simulated nodes are not ready", func(ctx context.Context) (bool, error) {
		nodes, err := api.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: simulatedLabel})
		if err != nil {
			return false, fmt.Errorf("list simulated nodes: %w", err)
		}
		return countReady(nodes.Items) == c.opts.Nodes, nil
	})
}

func (c *Cluster) kwokComponent() component {
	address := loopback(c.record.Ports[portKwok])
	return component{
		name: Kwok, path: c.binaries[Kwok], grace: clientGrace, address: "https://" + address,
		args: []string{
			"--kubeconfig=" + kubeconfigPath(c.opts.StateDir, userKwok),
			"--config=" + c.path("kwok-stages.yaml"),
			"--manage-all-nodes=false",
			"--manage-nodes-with-annotation-selector=" + kwokAnnotation + "=fake",
			"--server-address=" + address,
			"--tls-cert-file=" + c.pki.certFile(servingPair),
			"--tls-private-key-file=" + c.pki.keyFile(servingPair),
			"--node-ip=127.0.0.1",
			"--node-lease-duration-seconds=40",
		},
		probe: Probe{URL: "https://" + address + "/healthz", Trust: trustCluster}, prepare: c.freeNodeLeases,
	}
}

// freeNodeLeases deletes the leases an earlier kwok holds on the nodes. Each kwok process is another holder, and without
// this a new one would let nodes and pods alone until the leases of the dead one have run out.
func (c *Cluster) freeNodeLeases(ctx context.Context) error {
	api, err := c.clientset()
	if err != nil {
		return err
	}
	err = api.CoordinationV1().Leases(corev1.NamespaceNodeLease).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("delete node leases: %w", err)
	}
	return nil
}

func (c *Cluster) clientset() (*kubernetes.Clientset, error) {
	config, err := c.RESTConfig(UserAdmin)
	if err != nil {
		return nil, err
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return api, nil
}

// reconcileNodes makes the simulated nodes exactly those the options ask for; a kept cluster may have others.
func (c *Cluster) reconcileNodes(ctx context.Context, api *kubernetes.Clientset) error {
	wanted := map[string]bool{}
	for i := range c.opts.Nodes {
		node := simulatedNode(i, c.opts.GPUs)
		wanted[node.Name] = true
		if err := ensureNode(ctx, api, node); err != nil {
			return err
		}
	}
	nodes, err := api.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: simulatedLabel})
	if err != nil {
		return fmt.Errorf("list simulated nodes: %w", err)
	}
	for _, node := range nodes.Items {
		if wanted[node.Name] {
			continue
		}
		if err := api.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete simulated node %s: %w", node.Name, err)
		}
	}
	return nil
}

// ensureNode creates a node or gives an existing one the wanted labels and resources. Patches are used because kwok and
// the controller manager write to the same objects all the time.
func ensureNode(ctx context.Context, api *kubernetes.Clientset, node *corev1.Node) error {
	_, err := api.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{FieldManager: fieldManager})
	if err == nil {
		return nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create simulated node %s: %w", node.Name, err)
	}
	for subresource, content := range map[string]any{
		"":       map[string]any{"metadata": map[string]any{"labels": node.Labels, "annotations": node.Annotations}},
		"status": map[string]any{"status": map[string]any{"capacity": node.Status.Capacity, "allocatable": node.Status.Allocatable}},
	} {
		patch, err := json.Marshal(content)
		if err != nil {
			return fmt.Errorf("encode patch of simulated node %s: %w", node.Name, err)
		}
		subresources := []string{subresource}
		if subresource == "" {
			subresources = nil
		}
		_, err = api.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch,
			metav1.PatchOptions{FieldManager: fieldManager}, subresources...)
		if err != nil {
			return fmt.Errorf("update simulated node %s: %w", node.Name, err)
		}
	}
	return nil
}

func countReady(nodes []corev1.Node) int {
	ready := 0
	for i := range nodes {
		if nodeReady(&nodes[i]) {
			ready++
		}
	}
	return ready
}

func nodeReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// simulatedNode looks like an eight-way accelerator server with the labels its device plugin would set.
func simulatedNode(index, gpus int) *corev1.Node {
	name := fmt.Sprintf("sim-%d", index)
	resources := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("96"),
		corev1.ResourceMemory:           resource.MustParse("1Ti"),
		corev1.ResourceEphemeralStorage: resource.MustParse("4Ti"),
		corev1.ResourcePods:             resource.MustParse("110"),
	}
	labels := map[string]string{
		simulatedLabel:                     "true",
		"type":                             "kwok",
		"kubernetes.io/hostname":           name,
		"kubernetes.io/os":                 "linux",
		"kubernetes.io/arch":               "amd64",
		"node.kubernetes.io/instance-type": "simulated",
	}
	if gpus > 0 {
		resources[gpuResource] = *resource.NewQuantity(int64(gpus), resource.DecimalSI)
		labels["nvidia.com/gpu.present"] = "true"
		labels["nvidia.com/gpu.product"] = "NVIDIA-H100-80GB-HBM3"
		labels["nvidia.com/gpu.memory"] = "81559"
		labels["nvidia.com/gpu.count"] = strconv.Itoa(gpus)
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: map[string]string{kwokAnnotation: "fake"}},
		Status: corev1.NodeStatus{
			Capacity: resources, Allocatable: resources,
			NodeInfo: corev1.NodeSystemInfo{
				Architecture: "amd64", OperatingSystem: "linux", KubeletVersion: kubernetesVersion,
				ContainerRuntimeVersion: "kwok://" + kwokVersion,
			},
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeHostName, Address: name},
				{Type: corev1.NodeInternalIP, Address: "127.0.0.1"},
			},
		},
	}
}
