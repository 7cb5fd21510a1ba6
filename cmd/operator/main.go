// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command operator runs the Dynamo operator. In its image it is also called /manager.
package main

import (
	"flag"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/dynamo-operator/dynamo-operator/internal/operator/app"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/config"
)

func main() {
	settings := config.Bind(flag.CommandLine)
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&settings.Zap)))
	api, err := ctrl.GetConfig()
	if err == nil {
		err = app.Run(ctrl.SetupSignalHandler(), settings, api)
	}
	if err != nil {
		ctrl.Log.Error(err, "Operator ended")
		os.Exit(1)
	}
}
