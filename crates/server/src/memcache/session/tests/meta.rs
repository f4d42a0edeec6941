//! The meta protocol.

use super::*;

#[test]
fn mg_returns_the_values_of_its_flags() {
    let server = Server::new();
    server.ask("set a 7 0 3\r\nabc\r\n");
    assert_eq!(
        server.ask("mg a\r\nmg a v\r\nmg a s v\r\n"),
        "HD\r\nVA 3\r\nabc\r\nVA 3 s3\r\nabc\r\n"
    );
    assert_eq!(server.ask("mg a v k f t s O9 q\r\n"), "VA 3 ka f7 t-1 s3 O9\r\nabc\r\n");
    assert_eq!(server.ask("mg n\r\nmg n k O1\r\nmg n q k\r\nmn\r\n"), "EN\r\nEN kn O1\r\nMN\r\n");
    // Flags take effect in their order.
    assert_eq!(server.ask("mg a t T60\r\nmg a T30 t\r\n"), "HD t-1\r\nHD t30\r\n");
    assert_eq!(server.at(NOW + 10_000, "mg a t l\r\n"), "HD t20 l10\r\n");
    assert_eq!(server.at(NOW + 30_000, "mg a\r\n"), "EN\r\n");
}

#[test]
fn h_and_l_return_the_value_before_the_command_was_processed() {
    let server = Server::new();
    server.ask("set a 0 0 1\r\n1\r\n");
    // "u" avoids marking an item as being hit.
    assert_eq!(server.ask("mg a u h\r\nmg a h\r\nmg a h\r\n"), "HD h0\r\nHD h0\r\nHD h1\r\n");
    assert_eq!(server.at(NOW + 5_000, "mg a l\r\nmg a l\r\n"), "HD l5\r\nHD l0\r\n");
}

#[test]
fn vivify_on_miss_gives_one_client_the_right_to_recache() {
    let server = Server::new();
    assert_eq!(
        server.ask("mg n N30 t v\r\nmg n N30 t v k\r\n"),
        "VA 0 t30 W\r\n\r\nVA 0 t30 kn Z\r\n\r\n"
    );
    assert_eq!(server.ask("mg n v\r\n"), "VA 0 Z\r\n\r\n");
    assert_eq!(server.ask("ms n 2\r\nhi\r\nmg n v t\r\n"), "HD\r\nVA 2 t-1\r\nhi\r\n");
    assert_eq!(server.ask("mg m N30 q\r\nmg m N30 q k\r\n"), "HD W\r\nHD km Z\r\n");
    assert_eq!(server.ask("mg o N30 T60 t k O1\r\n"), "HD t60 ko O1 W\r\n");
    assert_eq!(
        server.ask("mg o T60\r\nmd none\r\nma none\r\nme none\r\n"),
        "HD Z\r\nNF\r\nNF\r\nEN\r\n"
    );
    let counters = &server.face.counters;
    assert_eq!(
        (counters.get_hits.get(), counters.get_misses.get(), counters.cmd_get.get()),
        (4, 3, 7)
    );
    // As in memcached 1.6.18: "mg" that found and touched counts as a touch, and only "me" as a
    // meta command.
    assert_eq!(
        (counters.cmd_touch.get(), counters.touch_hits.get(), counters.cmd_meta.get()),
        (2, 2, 1)
    );
    assert_eq!(
        server.ask("mg p t N30 t\r\nmg p t N30\r\nmg p t\r\n"),
        "CLIENT_ERROR duplicate flag\r\nHD t-1 W\r\nHD t30 Z\r\n"
    );
}

#[test]
fn r_wins_for_recache_when_the_remaining_ttl_is_less() {
    let server = Server::new();
    server.ask("set a 0 0 1\r\n1\r\n");
    assert_eq!(server.ask("mg a R30 t\r\nmg a T20 R10\r\n"), "HD t-1\r\nHD\r\n");
    assert_eq!(
        server.ask("mg a R30 t\r\nmg a R30 t\r\nmg a t\r\n"),
        "HD t20 W\r\nHD t20 Z\r\nHD t20 Z\r\n"
    );
    // A client can win a new value again.
    assert_eq!(server.ask("set a 0 10 1\r\n2\r\nmg a R30\r\n"), "STORED\r\nHD W\r\n");
    assert_eq!(server.ask("mg a T20 R30 t\r\n"), "HD t20 Z\r\n");
    assert_eq!(server.ask("set b 0 10 1\r\n2\r\nmg b T20 R30 t\r\n"), "STORED\r\nHD t20 W\r\n");
}

#[test]
fn invalidated_items_are_stale_until_stored_anew() {
    let server = Server::new();
    server.ask("set a 7 0 3\r\nabc\r\n");
    assert_eq!(
        server.ask("md a I T30\r\nmg a t v f\r\nmg a t\r\n"),
        "HD\r\nVA 3 t30 f7 X W\r\nabc\r\nHD t30 Z X\r\n"
    );
    assert_eq!(
        server.ask("touch a 0\r\nmg a\r\nget a\r\n"),
        "TOUCHED\r\nHD Z X\r\nVALUE a 7 3\r\nabc\r\nEND\r\n"
    );
    assert_eq!(server.ask("set a 0 0 1\r\nx\r\nmg a\r\n"), "STORED\r\nHD\r\n");
    assert_eq!(
        server.ask("md a I\r\nappend a 0 0 1\r\ny\r\nmg a v\r\n"),
        "HD\r\nSTORED\r\nVA 2\r\nxy\r\n"
    );
    // A number counted in place stays stale.
    assert_eq!(
        server.ask("ms a 1\r\n1\r\nmd a I\r\nma a v\r\nmg a v\r\n"),
        "HD\r\nHD\r\nVA 1\r\n2\r\nVA 1 X W\r\n2\r\n"
    );
    assert_eq!(server.ask("md n I\r\nmd a I T-1\r\nmg a\r\n"), "NF\r\nHD\r\nEN\r\n");
    // After a win and an invalidation another client may win.
    server.ask("set r 0 30 1\r\nx\r\n");
    assert_eq!(
        server.ask("mg r R60\r\nmd r I\r\nmg r\r\nmg r\r\n"),
        "HD W\r\nHD\r\nHD X W\r\nHD Z X\r\n"
    );
}

#[test]
fn ms_with_a_lower_cas_and_i_stores_a_stale_item() {
    let server = Server::new();
    server.ask("set a 7 0 3\r\nabc\r\n");
    assert_eq!(
        server.ask("ms a 2 C1\r\nhi\r\nms a 2 C0 I\r\nhi\r\nms n 2 C1 k O1\r\nhi\r\n"),
        "EX\r\nEX\r\nNF kn O1\r\n"
    );
    assert_eq!(
        server.ask("ms a 2 C99999999999999 I\r\nhi\r\nms a 2 MA C1 I\r\nhi\r\n"),
        "EX\r\nEX\r\n"
    );
    assert_eq!(
        server.ask("ms a 2 C1 I\r\nhi\r\nmg a v\r\nmg a v\r\n"),
        "HD\r\nVA 2 X W\r\nhi\r\nVA 2 Z X\r\nhi\r\n"
    );
    let answer = server.ask("ms a 1 c\r\nx\r\n");
    let cas = answer.trim().strip_prefix("HD c").unwrap();
    assert_eq!(
        server.ask(&format!("mg a c\r\nms a 1 C{cas} I\r\ny\r\nmg a v\r\n")),
        format!("HD c{cas}\r\nHD\r\nVA 1\r\ny\r\n")
    );
}

#[test]
fn the_modes_of_ms() {
    let server = Server::new();
    assert_eq!(
        server.ask("ms a 2 ME k O1\r\nhi\r\nms a 2 ME k O1 c\r\nhi\r\n"),
        "HD ka O1\r\nNS ka O1 c0\r\n"
    );
    assert_eq!(
        server.ask("ms a 2 MA\r\nlo\r\nms a 2 MP\r\n12\r\nmg a v\r\n"),
        "HD\r\nHD\r\nVA 6\r\n12hilo\r\n"
    );
    assert_eq!(server.ask("ms a 1 MR T30 F5\r\nx\r\nmg a v t f\r\n"), "HD\r\nVA 1 t30 f5\r\nx\r\n");
    assert_eq!(
        server.ask("ms n 1 MR k q\r\nx\r\nms n 1 MA\r\nx\r\nms n 1 MP\r\nx\r\n"),
        "NS kn\r\nNS\r\nNS\r\n"
    );
    assert_eq!(
        server.ask("ms n 1 MA N30\r\nx\r\nms n 1 MP N60\r\ny\r\nmg n v t\r\n"),
        "HD\r\nHD\r\nVA 2 t30\r\nyx\r\n"
    );
    assert_eq!(
        server.ask("ms a 1 MR C1\r\nx\r\nms a 1 ME C1\r\nx\r\nms a 1 MA C1\r\nx\r\n"),
        "EX\r\nNS\r\nEX\r\n"
    );
    assert_eq!(
        server.ask("ms o 1 MR C1\r\nx\r\nms o 1 MA C1\r\nx\r\nms o 1 ME C1\r\nx\r\n"),
        "NF\r\nNS\r\nHD\r\n"
    );
    assert_eq!(
        server.ask("ms a 2 q\r\nhi\r\nms a 2 q\r\nhix\r\nmn\r\n"),
        "CLIENT_ERROR bad data chunk\r\nERROR\r\nMN\r\n"
    );
}

#[test]
fn e_gives_the_version() {
    let server = Server::new();
    assert_eq!(server.ask("ms a 2 E1000 c\r\nhi\r\nmg a c\r\n"), "HD c1000\r\nHD c1000\r\n");
    assert_eq!(
        server.ask("ms a 2 C1000 E1001 c\r\nhi\r\nmd a I E2000\r\nmg a c\r\n"),
        "HD c1001\r\nHD\r\nHD c2000 X W\r\n"
    );
    assert_eq!(
        server.ask("ma n N0 E7 c\r\nma n E9 c v\r\nmg m N0 E5 c\r\n"),
        "HD c7\r\nVA 1 c9\r\n1\r\nHD c5 W\r\n"
    );
}

#[test]
fn md_deletes_or_marks_with_the_right_version_only() {
    let server = Server::new();
    server.ask("set a 7 0 3\r\nabc\r\n");
    assert_eq!(
        server.ask("md a C1 q k\r\nmd a I C1\r\nmd n q k O1\r\n"),
        "EX ka\r\nEX\r\nNF kn O1\r\n"
    );
    assert_eq!(server.ask("md a q\r\nmg a\r\nmn\r\n"), "EN\r\nMN\r\n");
    server.ask("set a 7 0 3\r\nabc\r\n");
    assert_eq!(server.ask("md a x\r\nmg a v f\r\n"), "HD\r\nVA 0 f0\r\n\r\n");
    assert_eq!(server.ask("md a T30 k\r\nmg a\r\n"), "HD ka\r\nEN\r\n");
}

#[test]
fn arithmetic() {
    let server = Server::new();
    server.ask("set n 5 0 2\r\n10\r\n");
    assert_eq!(
        server.ask("ma n\r\nma n v t k O1\r\nma n q\r\nma n q v\r\n"),
        "HD\r\nVA 2 t-1 kn O1\r\n12\r\n"
    );
    assert_eq!(server.ask("ma n MD D100 v\r\nmg n v f\r\n"), "VA 1\r\n0\r\nVA 2 f5\r\n0 \r\n");
    assert_eq!(server.ask("ma n T30 t\r\nmg n t\r\n"), "HD t30\r\nHD t30\r\n");
    assert_eq!(
        server.ask("ma m k O1\r\nma m N30 J13 v t q\r\nma m v\r\n"),
        "NF km O1\r\nVA 2 t30\r\n13\r\nVA 2\r\n14\r\n"
    );
    assert_eq!(
        server.ask("ma n C1 q k\r\nma n C0 q\r\nset a 0 0 1\r\nx\r\nma a q k\r\n"),
        "EX kn\r\nSTORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n"
    );
}

#[test]
fn me_shows_the_metadata() {
    let server = Server::new();
    server.ask("set a 7 0 3\r\nabc\r\nms YmI= 2 b T50\r\nhi\r\n");
    let a = server.ask("me a\r\n");
    assert!(
        a.starts_with("ME a exp=-1 la=0 cas=") && a.ends_with(" fetch=no cls=1 size=67\r\n"),
        "{a}"
    );
    let b = server.ask("mg bb\r\nme YmI= b\r\n");
    assert!(
        b.starts_with("HD\r\nME YmI= exp=-50 la=0 cas=")
            && b.ends_with(" fetch=yes cls=1 size=63\r\n"),
        "{b}"
    );
    assert_eq!(server.ask("me n\r\n"), "EN\r\n");
}

#[test]
fn binary_keys_in_base64() {
    let server = Server::new();
    assert_eq!(
        server.ask("ms IAo= 2 b k\r\nhi\r\nmg IAo= b k v s\r\n"),
        "HD kIAo= b\r\nVA 2 kIAo= b s2\r\nhi\r\n"
    );
    assert_eq!(
        server.ask("mg AAAA b k\r\nma YQ== b N0 k\r\nget a\r\n"),
        "EN kAAAA b\r\nHD kYQ== b\r\nVALUE a 0 1\r\n0\r\nEND\r\n"
    );
    assert_eq!(
        server.ask("md YQ== b k\r\nmg \"!\" b\r\n"),
        "HD kYQ== b\r\nCLIENT_ERROR error decoding key\r\n"
    );
}

#[test]
fn meta_commands_are_the_same_however_they_are_split() {
    let input = b"ms YWI= 5 b k O12 T0\r\nhello\r\nmg ab v k t\r\nms ab 3 MX\r\nabc\r\nms ab 2 q\r\nxy\r\nmg ab v q\r\n\
        ma n N0 J5 v\r\nma n D7 v\r\nmd n q\r\nmg n q\r\nme n\r\nmn\r\n";
    let expected = "HD kYWI= b O12\r\nVA 5 kab t-1\r\nhello\r\nCLIENT_ERROR invalid mode for ms M \
                    token\r\nVA 2\r\nxy\r\nVA 1\r\n5\r\nVA 2\r\n12\r\nEN\r\nMN\r\n";
    is_the_same_however_split(input, expected);
}
