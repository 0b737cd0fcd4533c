module example.com/what-if

go 1.24
