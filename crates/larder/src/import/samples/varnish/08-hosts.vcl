vcl 4.1;
backend a { .host = "10.0.0.1"; .port = "80"; }
backend b { .host = "10.0.0.2"; .port = "80"; }
sub vcl_recv {
    if (req.http.host == "a.example") { set req.backend_hint = a; }
    elseif (req.http.host ~ "^b\.") { set req.backend_hint = b; }
    if (req.http.User-Agent ~ "bot" && req.url ~ "^/search") { return (pass); }
}
