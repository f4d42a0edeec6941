vcl 4.1;
backend default { .host = "127.0.0.1"; .port = "81"; }
sub vcl_hash { hash_data(req.url); hash_data(req.http.host); hash_data(req.http.X-Country); return (lookup); }
sub vcl_backend_response { set beresp.do_esi = true; set beresp.do_gzip = true; }
sub vcl_recv { set req.url = std.querysort(req.url); }
