// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
)

// operatorBindingLabel marks what gives the operator its rights, so that a later start can take them away again.
const operatorBindingLabel = "dynamo-local/operator-rights"

// startOperator prepares the cluster for the operator and starts it, if there is one.
func (c *Cluster) startOperator(ctx context.Context) error {
	if c.opts.BeforeOperator != nil {
		if err := c.opts.BeforeOperator(ctx, c); err != nil {
			return fmt.Errorf("prepare the cluster for the operator: %w", err)
		}
	}
	if c.opts.Operator == nil {
		return nil
	}
	c.say("starting the operator")
	if err := c.grantOperator(ctx, c.opts.Operator.Role); err != nil {
		return err
	}
	digest, err := c.opts.Operator.Fingerprint()
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.record.Options.Operator.Digest = digest
	c.mu.Unlock()
	return c.run(ctx, c.operatorComponent(*c.opts.Operator))
}

// operatorComponent runs the operator as its own user, with its listeners on free ports unless args say otherwise.
func (c *Cluster) operatorComponent(o OperatorOptions) component {
	health := loopback(c.record.Ports[portOperatorHealth])
	args := []string{
		"--health-probe-bind-address=" + health,
		"--metrics-bind-address=" + loopback(c.record.Ports[portOperatorMetrics]),
	}
	probe := Probe{URL: "http://" + health + "/readyz"}
	for _, arg := range o.Args {
		if strings.HasPrefix(strings.TrimLeft(arg, "-"), "health-probe-bind-address") {
			probe = Probe{} // the caller moved it to where we cannot know
		}
	}
	return component{
		name: OperatorComponent, path: o.Path, args: append(args, o.Args...), grace: clientGrace, probe: probe,
		env: append(os.Environ(), "KUBECONFIG="+kubeconfigPath(c.opts.StateDir, UserOperator)),
	}
}

// Fingerprint identifies the content of the binary, its arguments and its role, so that a rebuilt operator is noticed.
func (o OperatorOptions) Fingerprint() (string, error) {
	digest := sha256.New()
	// No arguments must look the same before and after a journey through JSON.
	args := append([]string{}, o.Args...)
	if err := json.NewEncoder(digest).Encode([]any{args, o.Role}); err != nil {
		return "", fmt.Errorf("fingerprint of the operator: %w", err)
	}
	file, err := os.Open(o.Path)
	if err != nil {
		return "", fmt.Errorf("fingerprint of the operator: %w", err)
	}
	defer func() { _ = file.Close() }()
	if _, err := io.Copy(digest, file); err != nil {
		return "", fmt.Errorf("fingerprint of the operator %s: %w", o.Path, err)
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}

// grantOperator gives the operator's user exactly one role: the given one, or every right when there is none.
func (c *Cluster) grantOperator(ctx context.Context, role *rbacv1.ClusterRole) error {
	api, err := c.clientset()
	if err != nil {
		return err
	}
	name := "cluster-admin"
	if role != nil {
		name = role.Name
		if err := c.applyRole(ctx, role); err != nil {
			return err
		}
	}
	// The role of a binding cannot be changed, and rights of an earlier start would hide that the new role lacks some.
	err = api.RbacV1().ClusterRoleBindings().DeleteCollection(ctx, metav1.DeleteOptions{},
		metav1.ListOptions{LabelSelector: operatorBindingLabel})
	if err != nil {
		return fmt.Errorf("take back earlier rights of the operator: %w", err)
	}
	return bindOperator(ctx, api, name)
}

func (c *Cluster) applyRole(ctx context.Context, role *rbacv1.ClusterRole) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(role)
	if err != nil {
		return fmt.Errorf("encode role %s: %w", role.Name, err)
	}
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind("ClusterRole"))
	config, err := c.RESTConfig(UserAdmin)
	if err != nil {
		return err
	}
	return ApplyObjects(ctx, config, fieldManager, []*unstructured.Unstructured{object})
}

func bindOperator(ctx context.Context, api *kubernetes.Clientset, role string) error {
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{
			Name:   "dynamo-local:operator:" + role,
			Labels: map[string]string{operatorBindingLabel: "true"},
		},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: UserOperator}},
	}
	if _, err := api.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("bind role %s to the operator: %w", role, err)
	}
	return nil
}
