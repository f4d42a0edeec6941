//! The table of compressed pages.

use crate::{
    Snapshot,
    snapshot::{Row, figures},
};

figures! {
    /// Compressed forms of stored pages.
    pub struct Compression {
        figures {
            /// Pages compressed.
            made: Counter "larder_compressed", "More pages, or they change more often.";
            /// Forms that a page kept when it was written anew with the same content.
            kept: Counter "larder_compressed_kept", "Good: pages are validated and have not changed.";
            /// Pages that a coding does not make smaller.
            useless: Counter "larder_compressed_useless",
                "Content of a text type that is compressed already; turn `compress` off for it.";
            /// Requests for a compression that were dropped because too many waited.
            dropped: Counter "larder_compressed_dropped",
                "More pages come than one thread compresses; they are sent uncompressed meanwhile.";
            /// Bytes before compression.
            bytes_in: Counter "larder_compressed_input_bytes", "More or larger pages.";
            /// Bytes after compression.
            bytes_out: Counter "larder_compressed_output_bytes", "More or larger pages.";
            /// Dictionaries made of the documents of a site.
            dictionaries: Counter "larder_compressed_dictionaries",
                "Good: each is made anew after the `refresh` of `dictionary`.";
            /// Forms that wait to be made, now.
            waiting: Gauge "larder_compressed_waiting", "The thread that compresses is busy.";
        }
    }
}

impl Row for Compression {
    const LABELS: &'static [&'static str] = &[];

    fn each(snapshot: &Snapshot, f: &mut dyn FnMut(&[&str], &Self)) {
        snapshot.compression.iter().for_each(|compression| f(&[], compression));
    }
}
