module berth

go 1.27
