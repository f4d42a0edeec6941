# varnishd -a 127.0.0.1:8443,PROXY -a :80,HTTP -s default,2g -t 120
vcl 4.1;
backend default { .path = "/run/app.sock"; }
sub vcl_backend_response {
    if (beresp.status >= 500) { set beresp.uncacheable = true; return (deliver); }
    if (beresp.ttl <= 0s) { set beresp.uncacheable = true; }
    set beresp.ttl = 1h;
}
sub vcl_synth { set resp.http.Content-Type = "text/html"; return (deliver); }
