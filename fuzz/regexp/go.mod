module fuzzregexp

go 1.26
