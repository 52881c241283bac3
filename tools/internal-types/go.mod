module internal-types

go 1.24
