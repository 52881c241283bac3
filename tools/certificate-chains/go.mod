module kube-admission-proxy/tools/certificate-chains

go 1.26.0
