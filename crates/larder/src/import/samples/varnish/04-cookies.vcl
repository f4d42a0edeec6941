vcl 4.1;
backend default { .host = "app"; .port = "3000"; .probe = { .url = "/health"; .interval = 5s; .timeout = 1s; .window = 5; .threshold = 3; } }
sub vcl_recv {
    if (req.http.Cookie ~ "session") { return (pass); }
    if (req.http.Authorization) { return (pass); }
    set req.http.Cookie = regsuball(req.http.Cookie, "(^|; )__utm[^;]*", "");
    set req.http.X-Cache-Layer = "varnish";
}
