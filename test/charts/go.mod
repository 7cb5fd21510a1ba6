module github.com/dynamo-operator/dynamo-operator/test/charts

go 1.26.0

replace github.com/dynamo-operator/dynamo-operator => ../..
