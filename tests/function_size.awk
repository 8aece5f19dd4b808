# SPDX-License-Identifier: MIT
# Reports functions of C files that are longer than `max` lines (default 70), signature and closing brace included.
# Strings, characters, comments and preprocessor lines are taken out first; after #else the
# count of braces is what it was at the #if. A function is an outermost block whose head has a parameter list and no `=`; extern "C" { } is no block.
BEGIN { if (!max) max = 70 }

function finish() {
    if (file != "" && depth != 0) { print file ": braces do not balance"; bad = 1 }
    depth = 0; comment = 0; continued = 0; head = ""; conditions = 0
}

FNR == 1 { finish(); file = FILENAME }

# What is left of a line without comments and literals.
function strip(line,    out, i, c, two, quote) {
    out = ""
    for (i = 1; i <= length(line); i++) {
        c = substr(line, i, 1)
        two = substr(line, i, 2)
        if (comment) {
            if (two == "*/") { comment = 0; i++ }
        } else if (two == "/*") {
            comment = 1; i++; out = out " "
        } else if (two == "//") {
            break
        } else if (c == "\"" || (c == "'" && substr(line, i - 1, 1) !~ /[0-9A-Fa-f]/)) {
            quote = c
            for (i++; i <= length(line) && substr(line, i, 1) != quote; i++)
                if (substr(line, i, 1) == "\\") i++
            out = out (quote == "\"" ? "\"\"" : "0")
        } else {
            out = out c
        }
    }
    return out
}

{
    text = strip($0)
    if (continued || text ~ /^[ \t]*#/) {
        if (!continued) directive(text)
        continued = text ~ /\\$/
        next
    }
    scan(text)
}

function directive(text) {
    if (text ~ /^[ \t]*#[ \t]*if/) {
        saved_depth[++conditions] = depth
        saved_head[conditions] = head
    } else if (text ~ /^[ \t]*#[ \t]*(else|elif)/) {
        depth = saved_depth[conditions]
        head = saved_head[conditions]
    } else if (text ~ /^[ \t]*#[ \t]*endif/) {
        conditions--
    }
}

function scan(text,    i, c) {
    for (i = 1; i <= length(text); i++) {
        c = substr(text, i, 1)
        if (depth == 0) {
            if (c == ";" || c == "}") { head = ""; continue }
            if (c != "{") {
                if (head == "" && c !~ /[ \t]/) first = FNR
                if (head != "" || c !~ /[ \t]/) head = head c
                continue
            }
            if (head ~ /^extern[ \t]*""[ \t]*$/) { head = ""; continue }
            is_function = head ~ /\)[^()]*$/ && head !~ /=/ && head !~ /^(struct|union|enum|typedef)[^()]*$/
            name = head
            sub(/\(.*/, "", name)
            sub(/.*[ \t*]/, "", name)
            depth = 1
        } else if (c == "{") {
            depth++
        } else if (c == "}" && --depth == 0) {
            head = ""
            if (!is_function) continue
            functions++
            if (FNR - first + 1 > max) {
                print file ":" first ": " name " has " FNR - first + 1 " lines, at most " max " are allowed"
                bad = 1
            }
        }
    }
    if (head != "") head = head " "
}

END {
    finish()
    if (!functions) { print "no function found: the check checks nothing"; bad = 1 }
    print functions + 0 " functions looked at"
    exit bad
}
