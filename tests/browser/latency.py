"""How long a view takes from the hand to the eye, measured inside the page."""

from statistics import median


def summary(times: list[float]) -> str:
    return f"median {median(times):.0f} ms, slowest {max(times):.0f} ms of {len(times)}"


def key_to_image(page, handle, moves: int = 10) -> str:
    """From a key press on the slider to the new picture, decoded."""
    page.evaluate("""() => {
        window.times = [];
        window.pictures = 0;
        // The window outlives the view: what listened before would count each picture, too.
        window.measuring?.abort();
        window.measuring = new AbortController();
        const options = { capture: true, signal: window.measuring.signal };
        let start;
        document.addEventListener("keydown", (event) => (start = event.timeStamp), options);
        document.addEventListener("load", (event) => {
            if (!event.target.matches(".widget-image")) return;
            window.pictures += 1;
            // The sharp picture of a hand at rest comes later: it has more pixels than its width.
            const { naturalWidth, style } = event.target;
            if (start && naturalWidth <= parseFloat(style.width)) {
                window.times.push(performance.now() - start);
            }
        }, options);
    }""")
    handle.focus()
    for number in range(moves):
        before = page.evaluate("window.pictures")
        page.keyboard.press("ArrowLeft" if number % 2 else "ArrowRight")
        # On a busy machine the sharp picture may have taken the place of the quick one.
        page.wait_for_function("before => window.pictures > before", arg=before)
    page.wait_for_function("window.times.length > 0")
    return summary(page.evaluate("window.times"))
