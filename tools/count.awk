# Counts the events of `go test -json`. A package that fails although none of its tests did (it does not compile, its
# TestMain fails, it runs into the time limit) counts as one failure. status tells whether go test itself was content.

function member(name,    text) {
	if (!match($0, "\"" name "\":\"[^\"]*\"")) return ""
	text = substr($0, RSTART, RLENGTH)
	sub("^\"" name "\":\"", "", text)
	sub("\"$", "", text)
	return text
}

# Output may contain anything, but never an Action of these three.
/^[{]("Time":"[^"]*",)?"Action":"(pass|fail|skip)"/ {
	action = member("Action")
	package = member("Package")
	if (index($0, "\"Test\":\"")) {
		count[action]++
		if (action == "fail") hasFailedTest[package] = 1
	} else if (action == "fail") {
		failedPackage[package] = 1
	}
}

END {
	for (package in failedPackage) if (!(package in hasFailedTest)) count["fail"]++
	if (status != 0 && count["fail"] == 0) count["fail"] = 1
	printf "%d passed, %d failed", count["pass"], count["fail"]
	if (count["skip"] > 0) printf ", %d skipped", count["skip"]
	printf "\n"
}
