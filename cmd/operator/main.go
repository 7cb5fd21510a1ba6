// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command operator runs the Dynamo operator. In its image it is also called /manager.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/dynamo-operator/dynamo-operator/internal/operator/app"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/config"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/garbage"
)

func main() {
	garbage.Bound()
	err := run(ctrl.SetupSignalHandler(), os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		// A logger is set once. What is wrong with the configuration is said before the configuration could say how.
		ctrl.SetLogger(zap.New(zap.UseDevMode(true)))
		ctrl.Log.Error(err, "Operator ended")
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	settings, err := config.Load(flag.CommandLine, args, os.ReadFile)
	if err != nil {
		return err
	}
	if err := settings.Validate(app.Environment); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&settings.Zap)))
	api, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	return app.Run(ctx, settings, api)
}
