vcl 4.0;
backend default { .host = "127.0.0.1"; .port = "8000"; }
sub vcl_recv {
    if (req.url ~ "^/admin" || req.url ~ "^/login") { return (pass); }
    if (req.url ~ "\.(png|gif|jpg|css|js)(\?.*)?$") { unset req.http.Cookie; return (hash); }
}
sub vcl_backend_response {
    if (bereq.url ~ "\.(png|gif|jpg|css|js)(\?.*)?$") { unset beresp.http.Set-Cookie; set beresp.ttl = 1d; }
    set beresp.grace = 6h;
}
sub vcl_deliver {
    if (obj.hits > 0) { set resp.http.X-Cache = "HIT"; } else { set resp.http.X-Cache = "MISS"; }
    unset resp.http.X-Powered-By;
    unset resp.http.X-Varnish;
}
