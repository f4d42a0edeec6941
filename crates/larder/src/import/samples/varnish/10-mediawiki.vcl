vcl 4.1;
backend default { .host = "127.0.0.1"; .port = "8080"; }
acl purge { "127.0.0.1"; "::1"; }
sub vcl_recv {
    set req.http.X-Forwarded-For = client.ip;
    if (req.method == "PURGE") { if (!client.ip ~ purge) { return (synth(405)); } return (purge); }
    if (req.http.Authorization || req.http.Cookie ~ "session") { return (pass); }
    if (req.http.Accept-Encoding) { if (req.http.User-Agent ~ "MSIE 6") { unset req.http.Accept-Encoding; } }
    return (hash);
}
sub vcl_pipe { set req.http.connection = "close"; }
sub vcl_backend_response { set beresp.grace = 120s; if (!beresp.ttl > 0s) { return (deliver); } }
