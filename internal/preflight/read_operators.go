// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

func (r reader) readOperators(ctx context.Context) error {
	deployments, err := r.operatorDeployments(ctx)
	if err != nil {
		return err
	}
	for _, d := range deployments {
		o, ok := operatorOf(d)
		if !ok {
			continue
		}
		if o.Restricted == "" {
			if o.Restricted, err = r.restrictedByFile(ctx, d); err != nil {
				return err
			}
		}
		if o.Reference && o.Release != "" {
			if o.Bundled, err = r.bundled(ctx, d); err != nil {
				return err
			}
		}
		r.facts.Operators = append(r.facts.Operators, o)
	}
	if r.facts.Leaders, err = r.leases(ctx, "dynamo.nvidia.com"); err != nil {
		return err
	}
	r.facts.Claims, err = r.leases(ctx, names.ScopeLease)
	return err
}

// operatorDeployments finds them by what they are called and by what they are part of: a release may call them as it likes.
func (r reader) operatorDeployments(ctx context.Context) ([]appsv1.Deployment, error) {
	seen := map[types.UID]bool{}
	var all []appsv1.Deployment
	for _, selector := range []string{"app.kubernetes.io/name=dynamo-operator", "app.kubernetes.io/part-of=dynamo-operator"} {
		found, err := r.core.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return nil, err
		}
		for _, d := range found.Items {
			if !seen[d.UID] {
				seen[d.UID], all = true, append(all, d)
			}
		}
	}
	slices.SortFunc(all, func(a, b appsv1.Deployment) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all, nil
}

// operatorOf reads a Deployment, if it is that of an operator. The reference has a proxy beside the operator.
func operatorOf(d appsv1.Deployment) (Operator, bool) {
	o := Operator{Namespace: d.Namespace, Name: d.Name, Ready: d.Status.ReadyReplicas, Release: release(d.Annotations)}
	found := false
	for _, c := range d.Spec.Template.Spec.Containers {
		switch c.Name {
		case "kube-rbac-proxy":
			o.Reference = true
		case "manager":
			found, o.Image, o.Restricted = true, c.Image, flagOf(d.Namespace, c, "restrictedNamespace")
		}
	}
	return o, found
}

// flagOf is what a container's command line gives for a flag, in one word or two, as its process reads it. The last one counts.
func flagOf(namespace string, c corev1.Container, name string) string {
	value := ""
	words := slices.Concat(c.Command, c.Args)
	for i, word := range words {
		flag, given, inside := strings.Cut(strings.TrimLeft(word, "-"), "=")
		switch {
		case !strings.HasPrefix(word, "-") || flag != name:
		case inside:
			value = expand(namespace, c.Env, given)
		case i+1 < len(words):
			value = expand(namespace, c.Env, words[i+1])
		}
	}
	return value
}

// reference is how a command line names a variable of its container.
var reference = regexp.MustCompile(`\$\(([A-Za-z_][A-Za-z0-9_]*)\)`)

// expand puts variables into a word of a command line, as the kubelet does. What it cannot know here stays as it is.
func expand(namespace string, env []corev1.EnvVar, word string) string {
	return reference.ReplaceAllStringFunc(word, func(written string) string {
		name := reference.FindStringSubmatch(written)[1]
		for _, e := range env {
			switch {
			case e.Name != name:
			case e.ValueFrom == nil:
				return e.Value
			case e.ValueFrom.FieldRef != nil && e.ValueFrom.FieldRef.FieldPath == "metadata.namespace":
				return namespace
			}
		}
		return written
	})
}

// restrictedByFile is the namespace that the file of an operator keeps it to, if it has one and that is mounted from a ConfigMap.
func (r reader) restrictedByFile(ctx context.Context, d appsv1.Deployment) (string, error) {
	spec := d.Spec.Template.Spec
	for _, c := range spec.Containers {
		file := flagOf(d.Namespace, c, "config")
		if c.Name != "manager" || file == "" {
			continue
		}
		name := configMapAt(spec.Volumes, c.VolumeMounts, path.Dir(file))
		if name == "" {
			continue
		}
		stored, err := r.core.CoreV1().ConfigMaps(d.Namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return "", nil // its pods do not start, which is found elsewhere
		}
		if err != nil {
			return "", fmt.Errorf("read the configuration of %s/%s: %w", d.Namespace, d.Name, err)
		}
		var configured struct {
			RestrictedNamespace string `json:"restrictedNamespace"`
		}
		if err := yaml.Unmarshal([]byte(stored.Data[path.Base(file)]), &configured); err != nil {
			return "", fmt.Errorf("understand the configuration of %s/%s: %w", d.Namespace, d.Name, err)
		}
		return configured.RestrictedNamespace, nil
	}
	return "", nil
}

// configMapAt is the ConfigMap that is mounted at a directory.
func configMapAt(volumes []corev1.Volume, mounts []corev1.VolumeMount, directory string) string {
	for _, m := range mounts {
		if path.Clean(m.MountPath) != directory {
			continue
		}
		for _, v := range volumes {
			if v.Name == m.Name && v.ConfigMap != nil {
				return v.ConfigMap.Name
			}
		}
	}
	return ""
}

// bundled are Deployments that belong to the same Helm release as an operator of the reference and are neither that nor parts of NATS
// or etcd, which ours has as well: its chart can bring Grove and KAI along, and an upgrade in place would take them away.
func (r reader) bundled(ctx context.Context, operator appsv1.Deployment) ([]string, error) {
	all, err := r.core.AppsV1().Deployments(operator.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var others []string
	for _, d := range all.Items {
		same := release(d.Annotations) == release(operator.Annotations) && d.UID != operator.UID
		if same && !strings.Contains(d.Name, "nats") && !strings.Contains(d.Name, "etcd") {
			others = append(others, d.Name)
		}
	}
	slices.Sort(others)
	return others, nil
}

func (r reader) leases(ctx context.Context, name string) ([]Lease, error) {
	found, err := r.core.CoordinationV1().Leases(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		return nil, err
	}
	var all []Lease
	for _, l := range found.Items {
		holder := ""
		if l.Spec.HolderIdentity != nil {
			holder = *l.Spec.HolderIdentity
		}
		all = append(all, Lease{Namespace: l.Namespace, Holder: holder, Alive: holder != "" && r.alive(l.Spec.RenewTime, l.Spec.LeaseDurationSeconds)})
	}
	return all, nil
}
