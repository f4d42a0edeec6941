//! Source of synthetic requests: keys by popularity, operations by shares.

use rand::{SeedableRng, rngs::SmallRng};

use super::{Mix, Operation, Sizes, Source, Think, Verb, keys::Keys, popularity::KeyChooser};
use crate::random;

/// Parameters of synthetic requests.
#[derive(Clone, Debug)]
pub(crate) struct SyntheticSpec {
    pub(crate) mix: Mix,
    pub(crate) sizes: Sizes,
    pub(crate) think: Think,
    /// Keys per get.
    pub(crate) multi: usize,
    pub(crate) ttl: u32,
}

/// Synthetic requests of one thread.
#[derive(Debug)]
pub(crate) struct SyntheticSource {
    keys: Keys,
    recipe: SyntheticSpec,
    chooser: KeyChooser,
    rng: SmallRng,
    /// Unused buffers for additional keys: at most as many as the caller's operations ever held.
    spare: Vec<Vec<u8>>,
}

impl SyntheticSource {
    pub(crate) fn new(
        keys: Keys,
        recipe: SyntheticSpec,
        chooser: KeyChooser,
        thread: u64,
        seed: u64,
    ) -> SyntheticSource {
        let rng = SmallRng::seed_from_u64(random::derived(seed, thread));
        SyntheticSource { keys, recipe, chooser, rng, spare: Vec::new() }
    }

    fn more_keys(&mut self, operation: &mut Operation, wanted: usize) {
        while operation.more.len() > wanted {
            self.spare.extend(operation.more.pop());
        }
        let mut written = 0;
        while written < wanted {
            let Some(number) = self.chooser.pick(&mut self.rng) else { break };
            if written == operation.more.len() {
                operation.more.push(self.spare.pop().unwrap_or_default());
            }
            self.keys.write(number, &mut operation.more[written]);
            written += 1;
        }
        while operation.more.len() > written {
            self.spare.extend(operation.more.pop());
        }
    }
}

impl Source for SyntheticSource {
    fn next(&mut self, operation: &mut Operation) -> bool {
        let Some(number) = self.chooser.pick(&mut self.rng) else { return false };
        self.keys.write(number, &mut operation.key);
        operation.verb = self.recipe.mix.pick(&mut self.rng);
        let more = if operation.verb == Verb::Get { self.recipe.multi - 1 } else { 0 };
        self.more_keys(operation, more);
        operation.size = self.recipe.sizes.of(&operation.key);
        operation.ttl = self.recipe.ttl;
        operation.think = self.recipe.think.draw(&mut self.rng);
        operation.at = None;
        true
    }
}
