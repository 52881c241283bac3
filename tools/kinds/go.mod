module kube-admission-proxy/tools/kinds

go 1.26.0
