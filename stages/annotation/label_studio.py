"""The same edits as a Label Studio project: a labelling configuration and tasks.

Tags and formats are those of Label Studio 1.x (https://labelstud.io/tags, /guide/tasks,
/guide/export). Label Studio shows every field of a task in its data manager: it is less blind than
the form, for whoever looks there sees which edits have no new answer.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from stages.annotation.material import Item

NOT_ASKED = "– (there is no new answer to this image: leave both questions open)"

CONFIG = """<View>
  <Style>
    .edct-pair { display: flex; flex-wrap: wrap; gap: 16px; }
    .edct-pair > div { flex: 1 1 320px; min-width: 0; }
    .edct-text { white-space: pre-wrap; unicode-bidi: isolate; }
  </Style>
  <Header value="Question" size="5"/>
  <Text name="question" value="$question"/>
  <Header value="Edits so far; the last one is to be judged" size="5"/>
  <Text name="edits" value="$edits"/>
  <View className="edct-pair">
    <View>
      <Header value="Before this edit" size="5"/>
      <Image name="before" value="$before" zoom="true" zoomControl="true" smoothing="false"/>
    </View>
    <View>
      <Header value="After this edit" size="5"/>
      <Image name="edited" value="$edited" zoom="true" zoomControl="true" smoothing="false"/>
    </View>
    <View>
      <Header value="Original, before any edit" size="5"/>
      <Image name="original" value="$original" zoom="true" zoomControl="true" smoothing="false"/>
    </View>
  </View>
  <Header value="Is the last edit valid: what was asked for, where it was asked for?" size="4"/>
  <Choices name="valid" toName="edited" choice="single-radio" showInline="true"
           required="true" requiredMessage="Say whether the edit is valid.">
    <Choice value="yes" hotkey="y"/>
    <Choice value="no" hotkey="n"/>
    <Choice value="cant_tell" hotkey="c"/>
  </Choices>
  <View visibleWhen="choice-selected" whenTagName="valid" whenChoiceValue="yes">
    <Header value="Answer and explanation to the original" size="5"/>
    <Text name="old_words" value="$old_words"/>
    <Header value="Answer and explanation to the edited image" size="5"/>
    <Text name="new_words" value="$new_words"/>
    <Header value="AC: does the new answer fit what the edits did?" size="4"/>
    <Choices name="ac" toName="edited" choice="single-radio" showInline="true"
             visibleWhen="choice-selected" whenTagName="valid" whenChoiceValue="yes">
      <Choice value="1" hotkey="1"/>
      <Choice value="0" hotkey="2"/>
    </Choices>
    <Header value="EF: does the new explanation rest on what is there now?" size="4"/>
    <Choices name="ef" toName="edited" choice="single-radio" showInline="true"
             visibleWhen="choice-selected" whenTagName="valid" whenChoiceValue="yes">
      <Choice value="1" hotkey="3"/>
      <Choice value="0" hotkey="4"/>
    </Choices>
  </View>
  <TextArea name="note" toName="edited" rows="2" maxSubmissions="1" editable="true"
            placeholder="Note (optional)"/>
</View>
"""
"""AC and EF are not required: where there is no new answer nobody could submit the task."""


def write(
    folder: Path, items: Sequence[Item], *, form: str, images: Literal["files", "inline"]
) -> None:
    """Write `config.xml`, `tasks.json` and, for images as files, the folder `images`.

    A task's image address is relative to Label Studio's document root, which is the folder that
    holds the form's folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.xml").write_text(CONFIG, encoding="utf-8")
    names: dict[str, str] = {}
    tasks = []
    for item in items:
        shown = {}
        for kind, sha256 in item.images.items():
            if sha256 not in names:
                name = f"i{len(names) + 1}.png"
                png = item.load(sha256).png
                if images == "inline":
                    names[sha256] = f"data:image/png;base64,{base64.b64encode(png).decode()}"
                else:
                    (folder / "images").mkdir(exist_ok=True)
                    (folder / "images" / name).write_bytes(png)
                    place = f"{form}/{folder.name}/images/{name}"
                    names[sha256] = f"/data/local-files/?d={place}"
            shown[kind] = names[sha256]
        tasks.append({"data": _task(item, form) | shown})
    text = json.dumps(tasks, ensure_ascii=False, indent=1)
    (folder / "tasks.json").write_text(f"{text}\n", encoding="utf-8")


def _task(item: Item, form: str) -> dict[str, str]:
    context = f"{item.context}\n\n" if item.context else ""
    return {
        "form": form,
        "item": item.id,
        "question": f"{context}{item.question}",
        "edits": "\n\n".join(
            "\n".join([f"{i}. {edit['change']}", *_more(edit)])
            for i, edit in enumerate(item.edits, 1)
        ),
        "old_words": _words(item.answer, item.explanation),
        "new_words": _words(item.new["answer"], item.new["explanation"]) if item.new else NOT_ASKED,
    }


def _more(edit: Mapping[str, str]) -> list[str]:
    heads = (("appearance", "Look"), ("keep", "Keep"), ("avoid", "Avoid"))
    return [f"   {head}: {edit[key]}" for key, head in heads if edit[key]]


def _words(answer: str, explanation: str) -> str:
    return f"{answer}\n\n{explanation}"
