//! Futures in boxes that are used again.
//!
//! A request that goes to the origin takes two futures of 8 to 10 KB: its connection's task and its
//! fetch. A page of the allocator has place for six, and goes back to the system as soon as it is
//! empty and another one of its size has room (decision 54). So each thread keeps some boxes for
//! the next futures of the same kind.

use std::{
    any::Any,
    cell::RefCell,
    pin::Pin,
    task::{Context, Poll},
};

/// Bytes of the boxes that a thread keeps for one kind of future.
const KEPT_BYTES: usize = 256 << 10;

/// Empty boxes for one kind of future.
type Boxes<F> = Vec<Pin<Box<Option<F>>>>;

thread_local! {
    /// [`Boxes`] of each kind, of which there are few.
    static KEPT: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

/// A future in such a box. It is dropped when it is done, and its box is kept when this is dropped.
pub(crate) struct Reused<F: 'static>(Option<Pin<Box<Option<F>>>>);

impl<F: Future + 'static> Reused<F> {
    pub(crate) fn new(future: F) -> Self {
        let kept = with(|boxes: &mut Boxes<F>| boxes.pop()).flatten();
        let mut place = kept.unwrap_or_else(|| Box::pin(None));
        place.as_mut().set(Some(future));
        Self(Some(place))
    }
}

impl<F: Future + 'static> Future for Reused<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Some(place) = &mut self.0 else { return Poll::Pending };
        let Some(future) = place.as_mut().as_pin_mut() else { return Poll::Pending };
        let polled = future.poll(cx);
        if polled.is_ready() {
            place.as_mut().set(None);
        }
        polled
    }
}

impl<F: 'static> Drop for Reused<F> {
    fn drop(&mut self) {
        let Some(mut place) = self.0.take() else { return };
        place.as_mut().set(None);
        with(|boxes: &mut Boxes<F>| {
            if (boxes.len() + 1) * size_of::<Option<F>>() <= KEPT_BYTES {
                boxes.push(place);
            }
        });
    }
}

/// Calls `work` with the boxes for this kind. None: the thread is ending.
fn with<F: 'static, T>(work: impl FnOnce(&mut Boxes<F>) -> T) -> Option<T> {
    let find = |kinds: &RefCell<Vec<Box<dyn Any>>>| {
        let mut kinds = kinds.borrow_mut();
        let at = kinds.iter().position(|kind| kind.is::<Boxes<F>>()).unwrap_or_else(|| {
            kinds.push(Box::new(Boxes::<F>::new()));
            kinds.len() - 1
        });
        kinds[at].downcast_mut().map(work)
    };
    KEPT.try_with(find).ok().flatten()
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, future::pending, rc::Rc, task::Waker};

    use super::*;

    fn kept<F: Future + 'static>(_like: &F) -> Vec<*const Option<F>> {
        let places = |boxes: &mut Boxes<F>| boxes.iter().map(|place| &raw const **place).collect();
        with(places).expect("a thread that lives")
    }

    async fn count(done: Rc<Cell<u32>>, waits: bool) {
        if waits {
            pending::<()>().await;
        }
        done.set(done.get() + 1);
    }

    #[test]
    fn a_box_serves_the_next_future_of_its_kind() {
        let done = Rc::new(Cell::new(0));
        let like = count(done.clone(), false);
        let mut cx = Context::from_waker(Waker::noop());
        let mut first = Reused::new(count(done.clone(), false));
        let place = first.0.as_ref().map(|place| &raw const **place);
        assert!(Pin::new(&mut first).poll(&mut cx).is_ready());
        assert_eq!((done.get(), Rc::strong_count(&done)), (1, 2), "it is dropped once it is done");
        assert!(Pin::new(&mut first).poll(&mut cx).is_pending());
        drop(first);
        assert_eq!(kept(&like).last().copied(), place);
        let mut second = Reused::new(count(done.clone(), true));
        assert_eq!(second.0.as_ref().map(|place| &raw const **place), place);
        assert!(kept(&like).is_empty());
        assert!(Pin::new(&mut second).poll(&mut cx).is_pending());
        drop(second);
        assert_eq!((done.get(), Rc::strong_count(&done)), (1, 2), "it is dropped where it waits");
    }

    #[test]
    fn few_boxes_are_kept() {
        let large = || async {
            let bytes = [0_u8; 10_000];
            pending::<()>().await;
            std::hint::black_box(&bytes);
        };
        // Two closures' futures are two kinds: one call makes all of them.
        let futures: Vec<_> = (0..100).map(|_| Reused::new(large())).collect();
        drop(futures);
        let like = large();
        let kept = kept(&like).len();
        assert!(kept > 10 && kept * size_of_val(&like) <= KEPT_BYTES, "{kept}");
    }
}
