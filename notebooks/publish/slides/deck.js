// Starts a deck: equations, views, figures as large as there is room, then the slides.

(async () => {
  const BOTTOM = 676; // of the 720 px of a slide; below stand the chapter's name and the number
  const SIDE = 1168;
  const LEAST = 260; // the height that a figure is never made smaller than for want of room
  const MOST = 1.7; // a figure is enlarged up to so many times its width
  const ZOOMS = [2, 1.8, 1.6, 1.4, 1.2, 1];
  const SMALLER = [0.9, 0.8, 0.7, 0.6]; // for a run or a model that would not fit otherwise
  const STAGE = 880; // what is left for the matrix of a view whose controls stand beside it
  const frame = () => new Promise(requestAnimationFrame);
  const read = (id) => JSON.parse(document.getElementById(id).textContent);

  // Bitmaps of the views are drawn finer, because slides and views are enlarged.
  const dots = window.devicePixelRatio || 1;
  Object.defineProperty(window, "devicePixelRatio", { get: () => Math.max(3, dots) });

  await MathJax.startup.promise;
  await MathJax.typesetPromise([document.querySelector(".slides")]);
  markRoles();

  await Reveal.initialize({
    width: 1280,
    height: 720,
    margin: 0,
    minScale: 0.1,
    maxScale: 4,
    center: false,
    hash: true,
    slideNumber: "c/t",
    transition: "none",
    backgroundTransition: "none",
    pdfMaxPagesPerSlide: 1,
    pdfSeparateFragments: false,
    plugins: [RevealNotes],
  });

  // The measure of a slide that may not be on show: lay it out unseen, then put it back.
  async function laidOut(slide, work) {
    const chain = [slide.parentElement, slide].filter((part) => part.matches("section"));
    const before = chain.map((part) => [part, part.getAttribute("style"), part.hidden]);
    for (const part of chain) {
      part.hidden = false;
      part.style.setProperty("display", "block", "important");
    }
    await work();
    for (const [part, style, hidden] of before) {
      style === null ? part.removeAttribute("style") : part.setAttribute("style", style);
      part.hidden = hidden;
    }
  }

  const scaleOf = (slide) => slide.getBoundingClientRect().width / 1280 || 1;
  function roomLeft(slide) {
    const box = slide.querySelector(".content").getBoundingClientRect();
    return BOTTOM - (box.bottom - slide.getBoundingClientRect().top) / scaleOf(slide);
  }

  // What is still too large has smaller letters, down to 24 of 28 pixels.
  function fitText(slide) {
    const content = slide.querySelector(".content");
    const isTooLarge = () => roomLeft(slide) < 0 || content.scrollWidth > content.clientWidth + 1;
    for (let zoom = 0.97; isTooLarge() && zoom > 0.84; zoom -= 0.03) content.style.zoom = zoom;
  }

  function fitFigures(slide) {
    const figures = [...slide.querySelectorAll(".figure")];
    const size = (figure, height) => {
      const [across, down] = [figure.naturalWidth || figure.width, figure.naturalHeight || figure.height];
      const wide = Number(figure.dataset.width) || across; // sharp ones have more pixels than that
      const high = (wide * down) / across;
      const used = Math.min(height, (Math.min(SIDE, wide * MOST) * high) / wide);
      const [h, w] = [`${used}px`, `${(used * wide) / high}px`];
      Object.assign(figure.style, { maxHeight: "none", height: h, width: w });
      return used;
    };
    const heights = figures.map((figure) => size(figure, LEAST));
    for (let round = 0; round < 3; round++) {
      const room = roomLeft(slide) / figures.length;
      if (!(room > 1)) break;
      figures.forEach((figure, i) => (heights[i] = size(figure, heights[i] + room)));
    }
  }

  // A view lays itself out for the width it is given: the largest letters, then the largest matrix.
  async function fitView(slide, view) {
    view.style.height = "0px";
    const room = Math.max(LEAST, roomLeft(slide));
    if (view.querySelector(".d2l-translator")) return layOut(view, 1.05, SIDE / 1.05); // it scrolls
    if (view.querySelector(".d2l-player")) { // its drawing takes what room there is
      view.style.setProperty("--room", `${room}px`);
      return layOut(view, 1, SIDE);
    }
    if (view.querySelector(".d2l-inside:not(.d2l-heads)")) {
      for (const event of ["click", "keyup"]) view.addEventListener(event, () => fitModel(view, room));
      return fitModel(view, room);
    }
    let best = [Infinity];
    for (const zoom of view.querySelector(".panes") ? [...ZOOMS, ...SMALLER] : ZOOMS) {
      for (let width = widest(view) / zoom; width > 200; width *= 0.88) {
        const height = await layOut(view, zoom, width);
        if (height < best[0]) best = [height, zoom, width];
        if (height <= room) return keepFitting(view, room, zoom, width);
      }
    }
    if (best[0] < Infinity) await layOut(view, best[1], best[2]);
    keepFitting(view, room, best[1], best[2]);
  }

  // A model has the slide's width, and what is opened may be longer: smaller letters make it fit.
  async function fitModel(view, room) {
    for (const zoom of [...ZOOMS.slice(3), ...SMALLER]) {
      if ((await layOut(view, zoom, SIDE / zoom)) <= room) return;
    }
  }

  // Several heads stand side by side, below their controls: deck.css.
  const widest = (view) => (view.querySelector(".heads, .panes") ? SIDE : STAGE);

  async function layOut(view, zoom, width) {
    const inner = view.querySelector(".view-inner");
    Object.assign(inner.style, { width: `${width}px`, transform: `scale(${zoom})` });
    inner.style.setProperty("--zoom", zoom);
    await frame();
    await frame(); // it watches its size, and draws after the first frame
    const stage = inner.querySelector(".stage");
    view.style.height = `${inner.offsetHeight * zoom}px`;
    return stage && stage.scrollWidth * zoom > widest(view) ? Infinity : inner.offsetHeight * zoom;
  }

  // One head alone is drawn larger than one of many: after a click the view may need less width.
  function keepFitting(view, room, zoom, first) {
    view.addEventListener("click", async () => {
      for (let width = first; width > 200; width *= 0.88) {
        if ((await layOut(view, zoom, width)) <= room) return;
      }
    });
  }

  // Keys belong to a view while it has the focus, and go back to the slides after a click, but
  // not while one writes.
  function shareKeys(element) {
    element.addEventListener("keydown", (event) => {
      if (/^(Arrow|Home$|End$|Enter$| $)/.test(event.key)) event.stopPropagation();
    });
    const giveBack = () => document.activeElement.matches("input[type=text]") || document.activeElement.blur();
    element.addEventListener("pointerup", () => setTimeout(giveBack));
  }

  // A prediction that somebody writes down is kept in this browser. Where the answer stands on the
  // next slide, it goes along in the margin.
  const slides = Reveal.getSlides();
  for (const field of document.querySelectorAll(".guess")) {
    const key = `prediction ${field.closest("[data-cell]").dataset.cell}`; // gates.js has the same
    const slide = field.closest("section.slide");
    const beside = [...slide.querySelectorAll(".fragment")].some(
      (part) => field.compareDocumentPosition(part) & Node.DOCUMENT_POSITION_FOLLOWING,
    );
    const margin = document.createElement("div");
    margin.className = "guessed";
    if (!beside) slides[slides.indexOf(slide) + 1]?.append(margin);
    const say = () => (margin.textContent = field.value && `predicted: ${field.value}`);
    try { field.value = localStorage.getItem(key) ?? ""; } catch { /* a private window */ }
    field.addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (event.key === "Enter") field.blur();
    });
    field.addEventListener("input", () => {
      say();
      try { localStorage.setItem(key, field.value); } catch { /* a private window */ }
    });
    say();
  }

  await Promise.all([...document.images].map((image) => image.decode().catch(() => {})));
  const frames = read("frames");
  for (const element of document.querySelectorAll(".frames")) {
    showFrames(element, frames[element.dataset.frames]);
    shareKeys(element);
  }
  const widgets = openWidgets(read("states"));
  for (const view of document.querySelectorAll(".view")) {
    const inner = document.createElement("div");
    inner.className = "view-inner";
    view.replaceChildren(inner);
    await widgets.show(view.dataset.model, inner);
    shareKeys(view);
  }

  for (const slide of document.querySelectorAll("section.slide")) {
    const views = slide.querySelectorAll(".view");
    await laidOut(slide, async () => {
      for (const view of views) await fitView(slide, view);
      fitFigures(slide);
      fitText(slide);
    });
  }
  document.documentElement.dataset.deck = "ready";
})();
