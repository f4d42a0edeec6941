//! Commands around stale items, who may store them anew, and versions of one key: right ones,
//! earlier ones, made up ones.

use super::{Command, Part, Stream};

/// The key, and the same in the flags of meta commands.
const KEYS: [(&str, &str); 2] = [("s", ""), ("AAECAw==", " b")];

impl Stream {
    /// Any command about the one key there is; `base64`: its bytes are none of a text key.
    pub fn stale(&mut self, base64: bool) -> Command {
        let (key, flag) = KEYS[usize::from(base64)];
        match self.dice.below(if base64 { 14 } else { 18 }) {
            0..=2 => self.invalidate(key, flag),
            3..=7 => self.look(key, flag),
            8..=11 => self.replace(key, flag),
            // memcached forgets of a counter that it makes anew that its key was in base64.
            12 if !base64 => {
                let flags = self.flags(&["c", "t", "v", "D90", "MD", "N0"], 3);
                Command::of(format!("ma {key}{flags}\r\n"))
            }
            12 | 13 => Command::of("mn\r\n"),
            _ => self.as_text(key),
        }
    }

    fn invalidate(&mut self, key: &str, flag: &str) -> Command {
        let flags = self.flags(&["k", "Oop", "q"], 2);
        let ttl = self.dice.one(&["", "", " T30", " T600", " T0"]);
        let stale = if self.dice.once_in(8) { "" } else { " I" };
        let mut command = Command::of(format!("md {key}{flag}{stale}{ttl}{flags}"));
        self.version(&mut command);
        command.add("\r\n");
        command
    }

    fn look(&mut self, key: &str, flag: &str) -> Command {
        let mut flags = self.dice.one(&["", "", "", " T300", " N500"]).to_owned();
        if flags == " N500" && !flag.is_empty() {
            flags.clear();
        }
        flags += self.dice.one(&["", " R30", " R1000"]);
        flags += &self.flags(&["c", "f", "h", "k", "l", "Oabc", "q", "s", "t", "u", "v"], 7);
        Command::of(format!("mg {key}{flag}{flags}\r\n"))
    }

    fn replace(&mut self, key: &str, flag: &str) -> Command {
        let value = self.dice.one(&["1", "99", "x", "", "12 "]);
        let mode = self.dice.one(&["", "", "", "", " MS", " MR", " ME", " MA", " MP"]);
        // memcached forgets of an item that is joined to that its key was in base64.
        let mode = if !flag.is_empty() && matches!(mode, " MA" | " MP") { "" } else { mode };
        let ttl = self.dice.one(&["", " T90", " T0", " T2000"]);
        let stale = if self.dice.once_in(3) { "" } else { " I" };
        let flags = self.flags(&["c", "k", "Oset", "q", "F7"], 3);
        let mut command =
            Command::of(format!("ms {key} {}{flag}{mode}{stale}{ttl}{flags}", value.len()));
        self.version(&mut command);
        command.add("\r\n").add(value).add("\r\n");
        command
    }

    /// Adds a version, mostly: one that was shown, or one that nobody had.
    fn version(&mut self, command: &mut Command) {
        match self.dice.below(8) {
            0..=4 => {
                let label = self.label();
                command.add(" C").0.push(Part::Digits(label));
            }
            5 => {
                let made_up = self.dice.one(&["0", "1", "18446744073709551615"]);
                command.add(format!(" C{made_up}"));
            }
            _ => {}
        }
    }

    fn as_text(&mut self, key: &str) -> Command {
        let line = self.dice.one(&[
            "get KEY",
            "gets KEY",
            "gat 700 KEY",
            "gats 0 KEY",
            "touch KEY 400",
            "incr KEY 1",
            "incr KEY 900",
            "decr KEY 5",
            "delete KEY",
            "append KEY 0 0 1\r\n5",
            "set KEY 3 0 2\r\n10",
            "add KEY 0 80 1\r\n7",
            "replace KEY 0 0 1\r\n7",
        ]);
        Command::of(line.replace("KEY", key) + "\r\n")
    }
}
