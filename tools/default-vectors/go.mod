module kube-admission-proxy/tools/default-vectors

go 1.26.0
