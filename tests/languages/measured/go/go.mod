module podcount

go 1.27

require berth v0.0.0

replace berth => ../../../../sdks/go/berth
