"""SummaryWriter: scalars, histograms, images, figures and texts of a run, as event files."""
import io
import itertools
import os
import socket
import time

from ... import _C
from ..._tensor import Tensor
from . import messages

_F = _C.functions
_files = itertools.count()


def _tensor(value):
    return value.detach() if isinstance(value, Tensor) else _C._make_tensor(value)


class _EventFile:
    """One file, to which records are appended."""

    def __init__(self, folder, suffix):
        os.makedirs(folder, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}.{next(_files)}{suffix}"
        self._file = open(os.path.join(folder, name), "ab")
        self._file.write(messages.frame(messages.double(1, time.time()) + messages.text(3, "brain.Event:2")))

    def add(self, summary, step, wall_time):
        now = time.time() if wall_time is None else wall_time
        self._file.write(messages.frame(messages.event(now, 0 if step is None else int(step), summary)))

    def flush(self):
        self._file.flush()

    def close(self):
        self._file.close()


class SummaryWriter:
    """Writes into log_dir, by default runs/DATE_HOST."""

    def __init__(self, log_dir=None, comment="", purge_step=None, max_queue=10, flush_secs=120, filename_suffix=""):
        if not log_dir:
            log_dir = os.path.join("runs", time.strftime("%b%d_%H-%M-%S_") + socket.gethostname() + comment)
        self.log_dir, self._suffix, self._flush_seconds = os.fspath(log_dir), filename_suffix, flush_secs
        self._main, self._others, self._flushed = _EventFile(self.log_dir, filename_suffix), {}, time.time()

    def get_logdir(self):
        """The folder of the files."""
        return self.log_dir

    def _add(self, summary, step, wall_time, file=None):
        if self._main is None:  # after close() a new file is begun
            self._main = _EventFile(self.log_dir, self._suffix)
        (file or self._main).add(summary, step, wall_time)
        if time.time() - self._flushed > self._flush_seconds:
            self.flush()

    def _other(self, folder):
        if folder not in self._others:
            self._others[folder] = _EventFile(os.path.join(self.log_dir, folder), self._suffix)
        return self._others[folder]

    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None, new_style=False, double_precision=False):
        """A point of the curve `tag`."""
        self._add(messages.scalar(tag, float(scalar_value)), global_step, walltime)

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None):
        """Points of several curves in one picture: each is a run of its own."""
        for name, value in tag_scalar_dict.items():
            file = self._other(f"{main_tag.replace('/', '_')}_{name}")
            self._add(messages.scalar(main_tag, float(value)), global_step, walltime, file)

    def add_histogram(self, tag, values, global_step=None, bins="tensorflow", walltime=None, max_bins=None):
        """How values are distributed, in 64 equal bins or as many as asked."""
        x = _tensor(values).reshape(-1).to(_C.float64)
        if x.numel() == 0:
            raise ValueError("The input has no element.")
        low, high = x.min().item(), x.max().item()
        count = bins if isinstance(bins, int) else 64
        step = (high - low) / count or 1.0
        places = ((x - low) / step).long().clamp(max=count - 1)
        counts = _F["bincount"](places, minlength=count).double().tolist()
        limits = [low + step * (i + 1) for i in range(count)]
        summary = messages.histogram(tag, low, high, x.numel(), x.sum().item(), (x * x).sum().item(), limits, counts)
        self._add(summary, global_step, walltime)

    def add_image(self, tag, img_tensor, global_step=None, walltime=None, dataformats="CHW"):
        """A picture: floats from 0 to 1 or bytes."""
        x = _tensor(img_tensor)
        order = dataformats.upper()
        if sorted(order) not in (["C", "H", "W"], ["H", "W"]) or x.ndim != len(order):
            raise ValueError(f"add_image: a tensor of sizes {list(x.shape)} is no picture of the format {dataformats}.")
        x = x.permute([order.index(c) for c in "HWC"]) if "C" in order else x.unsqueeze(-1)
        if x.shape[-1] not in (1, 3, 4):
            raise ValueError(f"add_image: a picture has 1, 3 or 4 channels, found {x.shape[-1]} (sizes {list(x.shape)}).")
        if x.is_floating_point():
            x = (x * 255).clamp(0, 255).to(_C.uint8)
        height, width, channels = x.shape
        data = bytes(memoryview(x.to(_C.uint8).contiguous()).cast("B"))
        summary = messages.image(tag, height, width, channels, messages.png(data, width, height, channels))
        self._add(summary, global_step, walltime)

    def add_images(self, tag, img_tensor, global_step=None, walltime=None, dataformats="NCHW"):
        """Pictures [N, C, H, W] side by side."""
        x = _tensor(img_tensor)
        x = x.permute([dataformats.upper().index(c) for c in "NCHW"])
        self.add_image(tag, _F["cat"](list(x.unbind(0)), 2), global_step, walltime)

    def add_figure(self, tag, figure, global_step=None, close=True, walltime=None):
        """A figure of matplotlib."""
        for one in figure if isinstance(figure, list) else [figure]:
            buffer = io.BytesIO()
            one.savefig(buffer, format="png")
            width, height = (int(v) for v in one.get_size_inches() * one.dpi)
            self._add(messages.image(tag, height, width, 4, buffer.getvalue()), global_step, walltime)
            if close:
                import matplotlib.pyplot
                matplotlib.pyplot.close(one)

    def add_text(self, tag, text_string, global_step=None, walltime=None):
        """A text in Markdown."""
        self._add(messages.words(tag, text_string), global_step, walltime)

    def add_graph(self, model, input_to_model=None, verbose=False, use_strict_trace=True):
        """The model as text; pictures of graphs are torchviz.make_dot's."""
        self.add_text("graph", "\n".join("    " + line for line in repr(model).splitlines()))

    def add_hparams(self, hparam_dict, metric_dict, hparam_domain_discrete=None, run_name=None, global_step=None):
        """Settings as a table of text and results as scalars, in a run of their own."""
        if not isinstance(hparam_dict, dict) or not isinstance(metric_dict, dict):
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        file = self._other(run_name or str(time.time()))
        table = "| setting | value |\n|---|---|\n" + "\n".join(f"| {k} | {v} |" for k, v in hparam_dict.items())
        self._add(messages.words("hparams", table), global_step, None, file)
        for name, value in metric_dict.items():
            self._add(messages.scalar(name, float(value)), global_step, None, file)

    def flush(self):
        """Writes to the disk what is waiting."""
        for file in (self._main, *self._others.values()):
            if file is not None:
                file.flush()
        self._flushed = time.time()

    def close(self):
        """Ends the files."""
        for file in (self._main, *self._others.values()):
            if file is not None:
                file.close()
        self._main, self._others = None, {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
