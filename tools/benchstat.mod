module github.com/dynamo-operator/dynamo-operator/tools

go 1.26.0

tool golang.org/x/perf/cmd/benchstat

require (
	github.com/aclements/go-moremath v0.0.0-20210112150236-f10218a38794 // indirect
	golang.org/x/perf v0.0.0-20260312031701-16a31bc5fbd0 // indirect
)
