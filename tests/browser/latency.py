"""How long a view takes from the hand to the eye, measured inside the page."""

from statistics import median


def summary(times: list[float]) -> str:
    return f"median {median(times):.0f} ms, slowest {max(times):.0f} ms of {len(times)}"


def key_to_paint(view, slider) -> str:
    """From a key press on the slider to the frame that shows the new picture."""
    slider.evaluate("""slider => {
        window.times = [];
        let start;
        slider.addEventListener("keydown", (event) => (start = event.timeStamp));
        slider.addEventListener("input", () => requestAnimationFrame(() => {
            slider.closest(".d2l-attention").querySelector("canvas").getContext("2d")
                .getImageData(0, 0, 1, 1);
            window.times.push(performance.now() - start);
        }));
    }""")
    slider.focus()
    for key in ["ArrowLeft", "ArrowRight"] * 8:
        view.page.keyboard.press(key)
    view.page.wait_for_function("window.times.length > 0")  # on a busy machine a frame is late
    return summary(view.page.evaluate("window.times"))


def key_to_image(page, handle, moves: int = 30) -> str:
    """From a key press on the slider to the new picture, decoded."""
    page.evaluate("""() => {
        window.times = [];
        let start;
        document.addEventListener("keydown", (event) => (start = event.timeStamp), true);
        document.addEventListener("load", (event) => {
            // The sharp picture of a hand at rest comes later: it has more pixels than its width.
            const { naturalWidth, style } = event.target;
            const follows = start && naturalWidth <= parseFloat(style.width);
            if (follows && event.target.matches(".widget-image")) {
                window.times.push(performance.now() - start);
            }
        }, true);
    }""")
    handle.focus()
    for number in range(moves):
        page.keyboard.press("ArrowLeft" if number % 2 else "ArrowRight")
        page.wait_for_function("number => window.times.length > number", arg=number)
    return summary(page.evaluate("window.times"))
