# Refuses a plugin that imports what a component cannot have, and names the file, the line and the package.
#
# usage: awk -f imports.awk FILE...   prints the mistakes and exits with 1 if there are any

function missing(package) {
    if (package ~ /^(net|net\/http(\/.*)?|net\/rpc(\/.*)?|net\/smtp|crypto\/tls)$/) return "network"
    if (package ~ /^(os|os\/exec|os\/signal|os\/user|io\/ioutil|syscall|log\/syslog)$/) return "files, environment or processes"
    if (package ~ /^(C|plugin)$/) return "foreign code"
    return ""
}

FNR == 1 { block = 0 }
/^import[ \t]*\(/ { block = 1; next }
block && /^\)/ { block = 0 }
block || /^import[ \t]/ {
    sub(/\/\/.*$/, "")
    if (match($0, /"[^"]+"/)) {
        package = substr($0, RSTART + 1, RLENGTH - 2)
        if (missing(package) != "") {
            printf "%s:%d: imports %s; a plugin has no %s\n", FILENAME, FNR, package, missing(package)
            found = 1
        }
    }
}
END { exit found }
