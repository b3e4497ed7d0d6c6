// Replaces models.js in a build of Sandmill without inference.

/** A job has no models in such a build. */
export const names = () => [];

export const load = () => {
    throw new Error("this sandmill was built without inference: use a build with the feature `inference`");
};
