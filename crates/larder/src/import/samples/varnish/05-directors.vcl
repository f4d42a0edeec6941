vcl 4.1;
import directors;
backend one { .host = "10.0.0.1"; .port = "80"; }
backend two { .host = "10.0.0.2"; .port = "80"; }
sub vcl_init {
    new cluster = directors.round_robin();
    cluster.add_backend(one);
    cluster.add_backend(two);
}
sub vcl_recv { set req.backend_hint = cluster.backend(); }
sub vcl_backend_response { set beresp.ttl = 10m; set beresp.keep = 8h; }
