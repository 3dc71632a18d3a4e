"""Results for images and PDFs: the model sees an image, and reads a description of a PDF."""

from asyncagents.domain.call.call import Completed
from asyncagents.domain.call.result_file import PDF, FileCollector, image_size, mime_of
from asyncagents.domain.text import replace_surrogates


def describe_media(name: str, data: bytes) -> Completed | None:
    """Describe an image or a PDF, with the image attached; None: it is neither."""
    mime = mime_of(data)
    if mime is None:
        return None
    collector = FileCollector()
    frame = image_size(data)
    words = [mime, f"{frame[0]} x {frame[1]} pixels" if frame else "", f"{len(data)} bytes"]
    if mime == PDF:
        hint = "; use a command such as pdftotext for its text"
    else:
        why = collector.add(data, replace_surrogates(name))
        hint = f"; it is not shown here: {why}" if why else ""
    output = f"{name}: {', '.join(word for word in words if word)}{hint}."
    metadata = {"mime": mime, "size": len(data)}
    return Completed(output, title=name, metadata=metadata, files=tuple(collector.files))
