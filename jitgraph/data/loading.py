"""DataLoader: batches of a dataset, made here or by worker processes; PyTorch's names and order of parameters."""

from __future__ import annotations

import multiprocessing
import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, repeat
from typing import Any

from jitgraph import random
from jitgraph.data.collating import collate, default_convert
from jitgraph.data.dataset import TensorDataset, is_iterable
from jitgraph.data.samplers import BatchSampler, RandomSampler, SequentialSampler
from jitgraph.data.workers import ENDED, Workers, batches
from jitgraph.errors import JitgraphError


class Fetch:
    """How a batch is made of a dataset; it is sent to workers once."""

    def __init__(self, batched: bool, batch_size: int | None, drop_last: bool, collate_fn: Any) -> None:
        self.batched, self.batch_size, self.drop_last = batched, batch_size, drop_last
        self.collate_fn = collate_fn

    def __call__(self, dataset: Any) -> Callable[[Any], Any]:
        """What gives the batch of a request: of numbers, or the next one of an iterable dataset, then ENDED."""
        if is_iterable(dataset):
            return self._of_iterator(iter(dataset))
        return lambda places: self._of_indices(dataset, places)

    def _of_indices(self, dataset: Any, indices: Any) -> Any:
        if not self.batched:
            return (self.collate_fn or default_convert)(dataset[indices])
        if isinstance(dataset, TensorDataset) and self.collate_fn is None:
            return dataset[list(indices)] if len(indices) else dataset[:0]
        if hasattr(dataset, "__getitems__"):
            return (self.collate_fn or collate)(dataset.__getitems__(indices))
        items = []
        for index in indices:
            try:
                items.append(dataset[index])
            except Exception as error:
                error.add_note(f"at item {index} of the dataset")
                raise
        return (self.collate_fn or collate)(items)

    def _of_iterator(self, items: Iterator[Any]) -> Callable[[Any], Any]:
        def next_batch(_: Any) -> Any:
            if not self.batched:
                for item in items:
                    return (self.collate_fn or default_convert)(item)
                return ENDED
            assert self.batch_size is not None
            batch = list(islice(items, self.batch_size))
            if not batch or (self.drop_last and len(batch) < self.batch_size):
                return ENDED
            return (self.collate_fn or collate)(batch)

        return next_batch


class DataLoader:
    """Batches of a dataset, in order, in a random order, or in that of a sampler.

    Orders come from ``jg.random``, or from ``generator``, or with ``seed`` from a stream of the loader's own: the n-th
    iteration of two loaders with one seed is the same, however many workers there are. ``num_workers`` processes make
    the batches, ``prefetch_factor`` (2) each ahead of use; with ``persistent_workers`` they stay for the next
    iteration. An error in one is raised here with its traceback; one that dies or takes longer than ``timeout``
    seconds is a JitgraphError. Workers are forked unless ``multiprocessing_context`` says otherwise.
    ``batch_size=None`` gives items. ``pin_memory`` and ``pin_memory_device`` change nothing: copies to a GPU go
    through locked pages anyway; nor does ``in_order``, as batches always come in order.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: random.Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        seed: int | None = None,
    ) -> None:
        for name, least, value in (
            ("batch_size", 1, batch_size),
            ("num_workers", 0, num_workers),
            ("prefetch_factor", 1, prefetch_factor),
        ):
            if value is not None and (not hasattr(value, "__index__") or value < least):
                raise JitgraphError(f"DataLoader: {name} must be an integer of at least {least}, not {value!r}")
        if not timeout >= 0:
            raise JitgraphError(f"DataLoader: timeout must not be negative, and is {timeout}")
        if num_workers == 0 and (prefetch_factor is not None or persistent_workers or timeout):
            raise JitgraphError("DataLoader: prefetch_factor, persistent_workers and timeout need num_workers")
        if generator is not None and seed is not None:
            raise JitgraphError("DataLoader: generator= and seed= say the same; give one")
        self.dataset, self.num_workers, self.collate_fn = dataset, num_workers, collate_fn
        self.pin_memory, self.timeout, self.worker_init_fn = pin_memory, timeout, worker_init_fn
        self.prefetch_factor, self.persistent_workers = prefetch_factor or 2, persistent_workers
        self.generator = random.Generator(seed) if seed is not None else generator
        self.multiprocessing_context = multiprocessing_context
        self.pin_memory_device, self.in_order = pin_memory_device, in_order
        self._iterable = iterable = is_iterable(dataset)
        if iterable and (shuffle or sampler is not None or batch_sampler is not None):
            raise JitgraphError("an IterableDataset has its own order: no shuffle, sampler or batch_sampler")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise JitgraphError("batch_sampler= stands for batch_size, shuffle, sampler and drop_last")
        if sampler is not None and shuffle:
            raise JitgraphError("sampler= gives the order; it takes no shuffle=True")
        if batch_size is None and drop_last:
            raise JitgraphError("batch_size=None gives items, of which none is dropped")
        self.batch_size = None if batch_sampler is not None else batch_size
        self.drop_last = drop_last
        self.sampler: Any = sampler
        if sampler is None and not iterable:
            if shuffle:
                self.sampler = RandomSampler(dataset, generator=self.generator)
            else:
                self.sampler = SequentialSampler(dataset)
        self.batch_sampler: Any = batch_sampler
        if batch_sampler is None and batch_size is not None and not iterable:
            self.batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)
        self._workers: Workers | None = None

    def __len__(self) -> int:
        if self._iterable:
            count = len(self.dataset)
            if self.batch_size is None:
                return count
            return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
        return len(self.batch_sampler if self.batch_sampler is not None else self.sampler)

    def _requests(self) -> Iterator[Any]:
        if self._iterable:
            return repeat(())
        return iter(self.batch_sampler if self.batch_sampler is not None else self.sampler)

    def __iter__(self) -> Iterator[Any]:
        batched = self.batch_size is not None or self.batch_sampler is not None
        fetch = Fetch(batched, self.batch_size, self.drop_last, self.collate_fn)
        # drawn in every case, so that the order does not depend on the number of workers
        seed = int(random.randint(0, 2**32, (), dtype="int64", generator=self.generator).item())
        requests = self._requests()
        iterator = self._by_workers(fetch, requests, seed) if self.num_workers else self._here(fetch, requests)
        return self._counted(iterator) if self._iterable else iterator

    def _here(self, fetch: Fetch, requests: Iterator[Any]) -> Iterator[Any]:
        make = fetch(self.dataset)
        for request in requests:
            batch = make(request)
            if batch is ENDED:
                return
            yield batch

    def _counted(self, iterator: Iterator[Any]) -> Iterator[Any]:
        """What was found, with a warning where an iterable dataset gives more than its length says."""
        try:
            expected = len(self)
        except (TypeError, NotImplementedError):
            expected = None
        number = 0
        for number, batch in enumerate(iterator, 1):
            if expected is not None and number == expected + 1:
                text = f"the dataset has a length of {expected} batches, and gives more: with several workers each one"
                warnings.warn(f"{text} gives its items, unless it takes a share by get_worker_info()", stacklevel=3)
            yield batch

    def _by_workers(self, fetch: Fetch, requests: Iterator[Any], seed: int) -> Iterator[Any]:
        workers, self._workers = self._workers or self._started(fetch), None  # another iterator starts its own
        exhausted = False
        try:
            workers.begin(seed)
            yield from batches(workers, requests, self.prefetch_factor)
            exhausted = True
        finally:
            if self.persistent_workers and exhausted and self._workers is None:
                self._workers = workers
            else:
                workers.end()

    def _started(self, fetch: Fetch) -> Workers:
        if multiprocessing.current_process().daemon:
            raise JitgraphError(
                f"DataLoader: num_workers={self.num_workers} in a worker of another loader, which starts no processes\n"
                "  hint: num_workers=0 there"
            )
        start_method = self.multiprocessing_context
        start_method = "fork" if start_method is None else start_method
        context = multiprocessing.get_context(start_method) if isinstance(start_method, str) else start_method
        return Workers(self.num_workers, fetch, self.dataset, self.worker_init_fn, context, self.timeout)
