// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/dynamo-operator/dynamo-operator/internal/operator/config"
)

// haste is what a hasty pod has in its configuration.
func haste() map[string]any {
	return map[string]any{
		"webhooks.drainPeriod": "1s", "leaderElection.leaseDuration": "6s", "leaderElection.renewDeadline": "4s", "leaderElection.retryPeriod": "1s",
	}
}

// inside is a text with paths of mounts, as the process has to be told them.
func (p *Pod) inside(text string) string {
	var pairs []string
	for _, m := range p.container().VolumeMounts {
		pairs = append(pairs, m.MountPath, p.root+m.MountPath)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// read finds what is mounted.
func (p *Pod) read() {
	p.t.Helper()
	for _, m := range p.container().VolumeMounts {
		at := slices.IndexFunc(p.spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if at < 0 {
			p.t.Fatalf("there is no volume %s to mount at %s", m.Name, m.MountPath)
		}
		content, err := p.content(p.spec.Volumes[at])
		if err != nil {
			p.t.Fatal(err)
		}
		for name, text := range content {
			p.files[filepath.Join(m.MountPath, name)] = text
		}
	}
}

// content are the files of a volume.
func (p *Pod) content(v corev1.Volume) (map[string][]byte, error) {
	switch {
	case v.ConfigMap != nil:
		c := &corev1.ConfigMap{}
		if err := p.get(v.ConfigMap.Name, c); err != nil {
			return nil, err
		}
		files := map[string][]byte{}
		for name, text := range c.Data {
			files[name] = []byte(text)
		}
		return files, nil
	case v.Secret != nil:
		s := &corev1.Secret{}
		err := p.get(v.Secret.SecretName, s)
		if optional := v.Secret.Optional; optional != nil && *optional && client.IgnoreNotFound(err) == nil {
			return s.Data, nil
		}
		return s.Data, err
	default:
		return nil, fmt.Errorf("volume %s is neither a ConfigMap nor a Secret", v.Name)
	}
}

// write mounts the volumes. The file that the command line names says what the process can use.
func (p *Pod) write(c *config.Config, args []string) {
	p.t.Helper()
	for _, m := range p.container().VolumeMounts {
		if err := os.MkdirAll(p.root+m.MountPath, 0o700); err != nil {
			p.t.Fatal(err)
		}
	}
	for path, content := range p.files {
		if slices.Contains(args, "--config="+path) {
			usable, err := p.configuration(content, c)
			if err != nil {
				p.t.Fatalf("%s: %v", path, err)
			}
			content = usable
		}
		if err := os.WriteFile(p.root+path, content, 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
}

// configuration is a file with paths and an address of the webhooks that the process can use.
func (p *Pod) configuration(text []byte, c *config.Config) ([]byte, error) {
	members := map[string]any{}
	if err := yaml.Unmarshal([]byte(p.inside(string(text))), &members); err != nil {
		return nil, err
	}
	changes := map[string]any{}
	if p.hasty {
		maps.Copy(changes, haste())
	}
	if c.Webhooks.Enabled {
		host, port, err := net.SplitHostPort(p.webhooks)
		if err != nil {
			return nil, err
		}
		number, err := strconv.ParseInt(port, 10, 32)
		if err != nil {
			return nil, err
		}
		changes["webhooks.bindAddress"], changes["webhooks.port"] = host, number
	}
	for path, value := range changes {
		if err := unstructured.SetNestedField(members, value, strings.Split(path, ".")...); err != nil {
			return nil, err
		}
	}
	return yaml.Marshal(members)
}
