module kube-admission-proxy/tools/apiserver-flags

go 1.26.0
