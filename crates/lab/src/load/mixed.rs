//! The source that makes its requests up: keys by popularity, operations by shares.

use rand::{SeedableRng, rngs::SmallRng};

use super::{Ask, Mix, Sizes, Source, Think, Verb, keys::Keys, popularity::Picker, seed};

/// What is made up, and of what.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub(crate) mix: Mix,
    pub(crate) sizes: Sizes,
    pub(crate) think: Think,
    /// Keys of one get.
    pub(crate) multi: usize,
    pub(crate) ttl: u32,
}

/// One thread's requests.
#[derive(Debug)]
pub(crate) struct Mixed {
    keys: Keys,
    recipe: Recipe,
    picker: Picker,
    rng: SmallRng,
    /// Buffers for further keys that the last request had no use for: at most as many as the asks of the caller ever held.
    spare: Vec<Vec<u8>>,
}

impl Mixed {
    pub(crate) fn new(keys: Keys, recipe: Recipe, picker: Picker, thread: u64, seed: u64) -> Mixed {
        let rng = SmallRng::seed_from_u64(seed::mixed(seed, thread));
        Mixed { keys, recipe, picker, rng, spare: Vec::new() }
    }

    fn more_keys(&mut self, ask: &mut Ask, wanted: usize) {
        while ask.more.len() > wanted {
            self.spare.extend(ask.more.pop());
        }
        let mut written = 0;
        while written < wanted {
            let Some(number) = self.picker.pick(&mut self.rng) else { break };
            if written == ask.more.len() {
                ask.more.push(self.spare.pop().unwrap_or_default());
            }
            self.keys.write(number, &mut ask.more[written]);
            written += 1;
        }
        while ask.more.len() > written {
            self.spare.extend(ask.more.pop());
        }
    }
}

impl Source for Mixed {
    fn next(&mut self, ask: &mut Ask) -> bool {
        let Some(number) = self.picker.pick(&mut self.rng) else { return false };
        self.keys.write(number, &mut ask.key);
        ask.verb = self.recipe.mix.pick(&mut self.rng);
        let more = if ask.verb == Verb::Get { self.recipe.multi - 1 } else { 0 };
        self.more_keys(ask, more);
        ask.size = self.recipe.sizes.of(&ask.key);
        ask.ttl = self.recipe.ttl;
        ask.think = self.recipe.think.draw(&mut self.rng);
        ask.at = None;
        true
    }
}
