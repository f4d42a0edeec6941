vcl 4.0;
backend default { .host = "127.0.0.1"; .port = "8080"; }
acl purger { "127.0.0.1"; }
sub vcl_recv {
    if (req.method == "PURGE" || req.method == "BAN") {
        if (client.ip !~ purger) { return (synth(403)); }
        if (req.http.X-Purge-Method == "regex") { ban("req.url ~ " + req.url); return (synth(200, "Banned")); }
        return (purge);
    }
    if (req.url ~ "wp-(login|admin)" || req.url ~ "preview=true") { return (pass); }
    if (req.http.Cookie ~ "wordpress_logged_in") { return (pass); }
    unset req.http.Cookie;
}
