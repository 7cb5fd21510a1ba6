// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/storage/driver"
)

// helmTimeout bounds one operation, as the command line does.
const helmTimeout = 5 * time.Minute

// Helm does in a cluster what its command line does there, with the defaults of its flags.
type Helm struct {
	// Kubeconfig names the cluster and the user.
	Kubeconfig string
	// ClientSide has it install as Helm 3 did.
	ClientSide bool
	// TakeOwnership has what is there already become part of the release.
	TakeOwnership bool
}

func (h Helm) configuration(namespace string) (*action.Configuration, error) {
	settings := cli.New()
	settings.KubeConfig = h.Kubeconfig
	settings.SetNamespace(namespace)
	c := action.NewConfiguration(action.ConfigurationSetLogger(slog.DiscardHandler))
	if err := c.Init(settings.RESTClientGetter(), namespace, "secret"); err != nil {
		return nil, fmt.Errorf("set Helm up: %w", err)
	}
	return c, nil
}

// Upgrade is helm upgrade --install --create-namespace, of a directory or an archive.
func (h Helm) Upgrade(ctx context.Context, chart string, r Release) error {
	c, err := h.configuration(r.Namespace)
	if err != nil {
		return err
	}
	loaded, err := loader.Load(chart)
	if err != nil {
		return fmt.Errorf("load chart %s: %w", chart, err)
	}
	if _, err := c.Releases.Last(r.Name); errors.Is(err, driver.ErrReleaseNotFound) {
		install := action.NewInstall(c)
		install.ReleaseName, install.Namespace, install.CreateNamespace = r.Name, r.Namespace, true
		install.ServerSideApply = !h.ClientSide
		install.TakeOwnership = h.TakeOwnership
		install.WaitStrategy, install.Timeout = kube.HookOnlyStrategy, helmTimeout
		if _, err := install.RunWithContext(ctx, loaded, r.Values); err != nil {
			return fmt.Errorf("install %s: %w", r.Name, err)
		}
		return nil
	}
	upgrade := action.NewUpgrade(c)
	upgrade.Namespace, upgrade.WaitStrategy, upgrade.Timeout = r.Namespace, kube.HookOnlyStrategy, helmTimeout
	upgrade.TakeOwnership = h.TakeOwnership
	if _, err := upgrade.RunWithContext(ctx, r.Name, loaded, r.Values); err != nil {
		return fmt.Errorf("upgrade %s: %w", r.Name, err)
	}
	return nil
}

// Rollback is helm rollback, to a revision.
func (h Helm) Rollback(r Release, revision int) error {
	c, err := h.configuration(r.Namespace)
	if err != nil {
		return err
	}
	rollback := action.NewRollback(c)
	rollback.Version, rollback.WaitStrategy, rollback.Timeout = revision, kube.HookOnlyStrategy, helmTimeout
	if err := rollback.Run(r.Name); err != nil {
		return fmt.Errorf("roll %s back to %d: %w", r.Name, revision, err)
	}
	return nil
}

// Uninstall is helm uninstall.
func (h Helm) Uninstall(r Release) error {
	c, err := h.configuration(r.Namespace)
	if err != nil {
		return err
	}
	uninstall := action.NewUninstall(c)
	uninstall.WaitStrategy, uninstall.Timeout = kube.HookOnlyStrategy, helmTimeout
	if _, err := uninstall.Run(r.Name); err != nil {
		return fmt.Errorf("uninstall %s: %w", r.Name, err)
	}
	return nil
}
